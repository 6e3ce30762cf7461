package dynamo_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
	"github.com/lazyplane/lazyplane/pkg/store/storetest"
)

// tables returns a function that makes a new table in an emulator. The emulator
// copies a whole table per transaction, so each test has its own.
func tables(t *testing.T) func(t *testing.T, opts ...dynamo.Option) store.Store {
	client := dynamodb.NewFromConfig(moto.Config(moto.Start(t)))
	var n atomic.Int64
	return func(t *testing.T, opts ...dynamo.Option) store.Store {
		t.Helper()
		name := fmt.Sprintf("lazyplane-%d", n.Add(1))
		if err := dynamo.CreateTable(t.Context(), client, name); err != nil {
			t.Fatal(err)
		}
		return dynamo.New(client, name, opts...)
	}
}

func TestTheHostedStoreKeepsTheContract(t *testing.T) {
	table := tables(t)
	storetest.RunWith(t, func(t *testing.T) store.Store { return table(t) }, storetest.Options{Racers: 64, Rounds: 2, Rows: 24, Sequences: 20})
}

func TestTheHostedStoreKeepsTheContractWhileIndexesLag(t *testing.T) {
	table := tables(t)
	o := storetest.Options{Racers: 8, Rounds: 2, Rows: 24, Sequences: 8, Await: func(t testing.TB, s store.Store, seen func() bool) {
		t.Helper()
		s.(*storetest.Lag).Settle()
		if !seen() {
			t.Fatal("a settled index does not show what was acknowledged")
		}
	}}
	storetest.RunWith(t, func(t *testing.T) store.Store { return storetest.Lagging(table(t)) }, o)
}

func TestCreateTableFindsTheTableItMade(t *testing.T) {
	client := dynamodb.NewFromConfig(moto.Config(moto.Start(t)))
	for range 2 {
		if err := dynamo.CreateTable(t.Context(), client, "one"); err != nil {
			t.Fatal(err)
		}
	}
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String("one")})
	if err != nil || aws.ToString(ttl.TimeToLiveDescription.AttributeName) != "ttl" {
		t.Errorf("expiry: %+v, %v", ttl, err)
	}
}
