package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
)

// parts are the constructs made so far, for those that come after them.
type parts struct {
	tools *[]awslambda.ILayerVersion // of every function; see gitLayer
	stack awscdk.Stack
	set   settings

	Key        awskms.Key
	Table      awsdynamodb.Table
	Bucket     awss3.Bucket
	AccessLogs awss3.Bucket
	Queues     queues
	Bus        awsevents.EventBus
	Secret     awssecretsmanager.Secret
	Network    network
	Runner     runner
	Functions  map[string]function
	API        awsapigateway.RestApi
	CDN        cdn
	Flows      map[string]awsstepfunctions.StateMachine
	Topic      awssns.Topic
}
