package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// Tries and their pauses: a transaction that meets another gives up after about
// two seconds, which leaves a caller time to answer.
const (
	tries      = 8
	firstPause = 10 * time.Millisecond
	mostPause  = 500 * time.Millisecond
	tableReady = 5 * time.Minute
)

// backOff waits a random part of a span that doubles with every try.
func backOff(ctx context.Context, try int) error {
	span := min(firstPause<<try, mostPause)
	timer := time.NewTimer(span/2 + mrand.N(span/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newToken() string { return rand.Text() }

// Transact implements store.Store. One write is a plain conditional request at
// half the price of a transaction.
func (s *Store) Transact(ctx context.Context, ws ...store.Write) error {
	if err := store.Validate(ws); err != nil {
		return err
	}
	single := len(ws) == 1 && ws[0].Act != store.Check
	send := s.sendAll
	if single {
		send = s.sendOne
	}
	// One token for all tries: a transaction whose answer was lost is not made twice.
	token := s.token()
	var unknown error
	for try := range tries {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := send(ctx, ws, token)
		if err == nil {
			return nil
		}
		if e, unread := refusal(ws, err); unread != nil {
			return unread
		} else if e != nil {
			return e
		}
		switch {
		case contended(err):
			// An answer under the token says that no earlier try was carried out.
			unknown = nil
		case lost(err) && !single:
			unknown = err
		case lost(err) && s.mine(ctx, ws[0], token):
			return nil
		default:
			return transactError(ws, err)
		}
		if try < tries-1 {
			if err := s.wait(ctx, try); err != nil {
				return err
			}
		}
	}
	if unknown != nil {
		return transactError(ws, unknown)
	}
	return crowded()
}

func transactError(ws []store.Write, err error) error {
	return typed(err, "transact %d writes from %s", len(ws), ws[0].Item.Key)
}

// mine reports whether a single write whose answer was lost is what the item
// shows. It is not repeated: the repetition could be refused by the first, or
// come on top of it and of others' writes since.
func (s *Store) mine(ctx context.Context, w store.Write, token string) bool {
	out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: keyOf(w.Item.Key), ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: s.capacity(),
	})
	if err != nil {
		return false
	}
	s.consumed(false, one(out.ConsumedCapacity)...)
	by, ok := out.Item[attrBy].(*types.AttributeValueMemberS)
	return ok && by.Value == token
}

// lost reports whether a request may have been carried out although the answer
// does not say so.
func lost(err error) bool {
	e, answered := errors.AsType[smithy.APIError](err)
	return !answered || e.ErrorFault() == smithy.FaultServer || e.ErrorCode() == "ServiceUnavailable"
}

// refusal reads who refused which write out of an error; nil when none did.
func refusal(ws []store.Write, err error) (*store.ConflictError, error) {
	at, item := -1, values(nil)
	if e, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		at, item = 0, e.Item
	} else if e, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for i, r := range e.CancellationReasons {
			if aws.ToString(r.Code) == "ConditionalCheckFailed" {
				at, item = i, r.Item
				break
			}
		}
	}
	if at < 0 || at >= len(ws) {
		return nil, nil
	}
	c := &store.ConflictError{Write: at, Key: ws[at].Item.Key, Current: store.Item{Key: ws[at].Item.Key}}
	exists := len(item) > 0
	if exists {
		if c.Current, err = fromItem(item); err != nil {
			return nil, err
		}
	}
	c.Failed, _ = ws[at].Refused(c.Current, exists)
	return c, nil
}

// contended reports whether a request certainly wrote nothing because others
// were at its items, too many at the table, or no connection was to be had.
func contended(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	if e, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		busy := false
		for _, r := range e.CancellationReasons {
			switch aws.ToString(r.Code) {
			case "None", "":
			case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
				busy = true
			default:
				return false
			}
		}
		return busy
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		switch e.ErrorCode() {
		case "TransactionConflictException", "TransactionInProgressException", "ThrottlingException",
			"ProvisionedThroughputExceededException", "RequestLimitExceeded":
			return true
		}
	}
	return false
}

// sendAll sends a transaction. The SDK may repeat it after a lost answer: the
// token makes that harmless.
func (s *Store) sendAll(ctx context.Context, ws []store.Write, token string) error {
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: &token, ReturnConsumedCapacity: s.capacity()}
	const old = types.ReturnValuesOnConditionCheckFailureAllOld
	for _, w := range ws {
		e := newExpression()
		cond := e.condition(w.If)
		var item types.TransactWriteItem
		switch w.Act {
		case store.Put:
			n, v := e.maps()
			item.Put = &types.Put{
				TableName: &s.table, Item: toItem(w.Item), ConditionExpression: cond,
				ExpressionAttributeNames: n, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: old,
			}
		case store.Update:
			change := e.update(w, "")
			n, v := e.maps()
			item.Update = &types.Update{
				TableName: &s.table, Key: keyOf(w.Item.Key), UpdateExpression: &change, ConditionExpression: cond,
				ExpressionAttributeNames: n, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: old,
			}
		case store.Delete:
			n, v := e.maps()
			item.Delete = &types.Delete{
				TableName: &s.table, Key: keyOf(w.Item.Key), ConditionExpression: cond,
				ExpressionAttributeNames: n, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: old,
			}
		case store.Check:
			n, v := e.maps()
			item.ConditionCheck = &types.ConditionCheck{
				TableName: &s.table, Key: keyOf(w.Item.Key), ConditionExpression: cond,
				ExpressionAttributeNames: n, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: old,
			}
		}
		in.TransactItems = append(in.TransactItems, item)
	}
	out, err := s.db.TransactWriteItems(ctx, in)
	if err == nil {
		s.consumed(true, out.ConsumedCapacity...)
	}
	return err
}

// sendOne sends a single write. DynamoDB takes no token with it, so the SDK must
// not repeat it: a lost answer would come back as a refusal by the caller's own
// write. The token stays in the item instead, for mine to find.
func (s *Store) sendOne(ctx context.Context, ws []store.Write, token string) error {
	w := ws[0]
	e := newExpression()
	cond := e.condition(w.If)
	once := func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }
	const old = types.ReturnValuesOnConditionCheckFailureAllOld
	var used *types.ConsumedCapacity
	var err error
	switch w.Act {
	case store.Put:
		item := toItem(w.Item)
		item[attrBy] = text(token)
		n, v := e.maps()
		var out *dynamodb.PutItemOutput
		if out, err = s.db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.table, Item: item, ConditionExpression: cond, ReturnConsumedCapacity: s.capacity(),
			ExpressionAttributeNames: n, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: old,
		}, once); err == nil {
			used = out.ConsumedCapacity
		}
	case store.Update:
		change := e.update(w, token)
		n, v := e.maps()
		var out *dynamodb.UpdateItemOutput
		if out, err = s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: keyOf(w.Item.Key), UpdateExpression: &change, ConditionExpression: cond, ReturnConsumedCapacity: s.capacity(),
			ExpressionAttributeNames: n, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: old,
		}, once); err == nil {
			used = out.ConsumedCapacity
		}
	case store.Delete:
		n, v := e.maps()
		var out *dynamodb.DeleteItemOutput
		if out, err = s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &s.table, Key: keyOf(w.Item.Key), ConditionExpression: cond, ReturnConsumedCapacity: s.capacity(),
			ExpressionAttributeNames: n, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: old,
		}, once); err == nil {
			used = out.ConsumedCapacity
		}
	default:
		return fmt.Errorf("send one write: no request does %v alone", w.Act)
	}
	if err == nil {
		s.consumed(true, one(used)...)
	}
	return err
}
