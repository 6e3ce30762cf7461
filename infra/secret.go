package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/jsii-runtime-go"
)

// newSecret makes the place for the forge App's key, the only secret that is not
// in the table under a tenant's data key. It is filled by hand, never by a
// deployment.
func newSecret(p *parts) awssecretsmanager.Secret {
	return awssecretsmanager.NewSecret(p.stack, jsii.String("ForgeApp"), &awssecretsmanager.SecretProps{
		SecretName:    jsii.String(p.set.prefix() + "/forge-app"),
		Description:   jsii.String("Private key of the forge App; put in by hand"),
		RemovalPolicy: p.set.removal(),
	})
}
