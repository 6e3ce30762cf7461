package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// CreateTable makes a table as the store needs it, and waits until it is ready:
// a string key, an index for each of store.Indexes that holds keys alone, expiry
// by ttl, a stream of new images, on demand. A deployed one also has
// point-in-time recovery.
func CreateTable(ctx context.Context, client *dynamodb.Client, table string) error {
	in := &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewImage},
	}
	key := func(pk, sk string) []types.KeySchemaElement {
		for _, n := range []string{pk, sk} {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(n), AttributeType: types.ScalarAttributeTypeS})
		}
		return []types.KeySchemaElement{{AttributeName: aws.String(pk), KeyType: types.KeyTypeHash}, {AttributeName: aws.String(sk), KeyType: types.KeyTypeRange}}
	}
	in.KeySchema = key(attrPK, attrSK)
	for _, x := range store.Indexes() {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(string(x)), KeySchema: key(slotNames(x)), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		})
	}
	if _, err := client.CreateTable(ctx, in); err != nil {
		if _, exists := errors.AsType[*types.ResourceInUseException](err); !exists {
			return fmt.Errorf("create table %s: %w", table, err)
		}
	}
	if err := dynamodb.NewTableExistsWaiter(client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &table}, tableReady); err != nil {
		return fmt.Errorf("wait for table %s: %w", table, err)
	}
	_, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("set the expiry of table %s: %w", table, err)
	}
	return nil
}
