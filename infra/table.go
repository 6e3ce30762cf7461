package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// newTable makes the one table: on demand, restorable to any second of the last
// 35 days, expiry for garbage only, a stream that the outbox is published from.
// It has no name of its own, so that one restored from a backup can take its
// place.
func newTable(p *parts) awsdynamodb.Table {
	text := func(name string) *awsdynamodb.Attribute {
		return &awsdynamodb.Attribute{Name: jsii.String(name), Type: awsdynamodb.AttributeType_STRING}
	}
	t := awsdynamodb.NewTable(p.stack, jsii.String("Table"), &awsdynamodb.TableProps{
		PartitionKey: text(names.TablePK), SortKey: text(names.TableSK),
		BillingMode: awsdynamodb.BillingMode_PAY_PER_REQUEST,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		Encryption:          awsdynamodb.TableEncryption_AWS_MANAGED,
		TimeToLiveAttribute: jsii.String(names.TableTTL),
		Stream:              awsdynamodb.StreamViewType_NEW_IMAGE,
		DeletionProtection:  jsii.Bool(!p.set.Destroy),
		RemovalPolicy:       p.set.removal(),
	})
	for _, x := range names.TableIndexes() {
		t.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexProps{
			IndexName: jsii.String(x), PartitionKey: text(x + "_pk"), SortKey: text(x + "_sk"),
			ProjectionType: awsdynamodb.ProjectionType_KEYS_ONLY,
		})
	}
	return t
}
