package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"
)

// newKey makes the one master key. It wraps the tenants' data keys and nothing
// else, so whoever may read the table or the bucket can open neither.
func newKey(p *parts) awskms.Key {
	return awskms.NewKey(p.stack, jsii.String("Key"), &awskms.KeyProps{
		Alias:             jsii.String("alias/" + p.set.prefix()),
		Description:       jsii.String("Wraps the data keys of lazyplane's tenants"),
		EnableKeyRotation: jsii.Bool(true),
		RemovalPolicy:     p.set.removal(),
	})
}
