package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

// newBucket makes the blob store. What lies in it is sealed with the tenant's
// data key before it comes here; the bucket's own encryption is a second layer.
// Objects are written once, so an old version is only ever a mistake's or an
// attacker's, and is kept for 30 days.
func newBucket(p *parts) awss3.Bucket {
	return awss3.NewBucket(p.stack, jsii.String("Blobs"), &awss3.BucketProps{
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		EnforceSSL:        jsii.Bool(true),
		MinimumTLSVersion: jsii.Number(1.2),
		Versioned:         jsii.Bool(true),
		LifecycleRules: &[]*awss3.LifecycleRule{{
			Id:                                  jsii.String("old"),
			NoncurrentVersionExpiration:         awscdk.Duration_Days(jsii.Number(30)),
			AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(1)),
		}},
		ServerAccessLogsBucket: p.AccessLogs, ServerAccessLogsPrefix: jsii.String("blobs/"),
		RemovalPolicy: p.set.removal(),
	})
}

// newAccessLogs keeps for 90 days who asked the bucket and the front for what.
// CloudFront delivers under an access list, so that this bucket alone has one.
func newAccessLogs(p *parts) awss3.Bucket {
	return awss3.NewBucket(p.stack, jsii.String("AccessLogs"), &awss3.BucketProps{
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_PREFERRED,
		EnforceSSL:        jsii.Bool(true),
		MinimumTLSVersion: jsii.Number(1.2),
		Versioned:         jsii.Bool(true),
		LifecycleRules: &[]*awss3.LifecycleRule{{
			Id: jsii.String("old"), Expiration: awscdk.Duration_Days(jsii.Number(90)), NoncurrentVersionExpiration: awscdk.Duration_Days(jsii.Number(1)),
		}},
		RemovalPolicy: p.set.removal(),
	})
}
