// Package dynamo is the DynamoDB adapter of the store port: one table, reads of
// it consistent, conditions evaluated by the table, and the item that refused a
// write returned with the refusal.
package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// Meter is told the capacity units that each answered request consumed. A
// refused request consumes some too, of which DynamoDB says nothing.
type Meter interface {
	Consumed(read, write float64)
}

// Store is a table. It is safe for concurrent use.
type Store struct {
	db    *dynamodb.Client
	table string
	meter Meter
	wait  func(ctx context.Context, try int) error
	token func() string
}

var _ store.Store = (*Store)(nil)

// Option changes how a table is used.
type Option func(*Store)

// WithMeter has m told what each request consumes.
func WithMeter(m Meter) Option { return func(s *Store) { s.meter = m } }

// New returns the store in an existing table; CreateTable says what it is like.
func New(client *dynamodb.Client, table string, opts ...Option) *Store {
	s := &Store{db: client, table: table, wait: backOff, token: newToken}
	for _, o := range opts {
		o(s)
	}
	return s
}

func (s *Store) capacity() types.ReturnConsumedCapacity {
	if s.meter == nil {
		return types.ReturnConsumedCapacityNone
	}
	return types.ReturnConsumedCapacityTotal
}

func (s *Store) consumed(write bool, cs ...types.ConsumedCapacity) {
	if s.meter == nil {
		return
	}
	for _, c := range cs {
		n := aws.ToFloat64(c.CapacityUnits)
		if write {
			s.meter.Consumed(0, n)
		} else {
			s.meter.Consumed(n, 0)
		}
	}
}

// read repeats a read whose answer was cut off, which the SDK takes for final.
func (s *Store) read(ctx context.Context, once func() error) error {
	for try := 0; ; try++ {
		err := once()
		if err == nil || !lost(err) || ctx.Err() != nil || try == 2 {
			return err
		}
		if err := s.wait(ctx, try); err != nil {
			return err
		}
	}
}

func one(c *types.ConsumedCapacity) []types.ConsumedCapacity {
	if c == nil {
		return nil
	}
	return []types.ConsumedCapacity{*c}
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, k store.Key) (store.Item, error) {
	if err := ctx.Err(); err != nil {
		return store.Item{}, err
	}
	var out *dynamodb.GetItemOutput
	err := s.read(ctx, func() (err error) {
		out, err = s.db.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.table, Key: keyOf(k), ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: s.capacity(),
		})
		return err
	})
	if err != nil {
		return store.Item{}, typed(err, "get %s", k)
	}
	s.consumed(false, one(out.ConsumedCapacity)...)
	if len(out.Item) == 0 {
		return store.Item{}, store.ErrNotFound
	}
	return fromItem(out.Item)
}

// Query implements store.Store. It reads one row beyond the page, so that the
// last page says that it is the last.
func (s *Store) Query(ctx context.Context, q store.Query) (store.Page, error) {
	p, err := q.Plan()
	if err != nil {
		return store.Page{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Page{}, err
	}
	if p.Empty {
		return store.Page{}, nil
	}
	in := s.request(p)
	var page store.Page
	size := 0
	for {
		in.Limit = aws.Int32(int32(p.Limit + 1 - len(page.Items)))
		var out *dynamodb.QueryOutput
		err := s.read(ctx, func() (err error) {
			out, err = s.db.Query(ctx, in)
			return err
		})
		if err != nil {
			return store.Page{}, typed(err, "query %s %s", p.Index, p.PK)
		}
		s.consumed(false, one(out.ConsumedCapacity)...)
		for _, m := range out.Items {
			it, err := fromItem(m)
			if err != nil {
				return store.Page{}, err
			}
			if p.To != "" && p.Prefix == "" && sortKey(p, it) >= p.To {
				continue // BETWEEN includes its upper end
			}
			if len(page.Items) == p.Limit || size > store.PageBytes {
				page.Next = q.CursorAfter(page.Items[len(page.Items)-1])
				return s.rows(ctx, q, page)
			}
			page.Items = append(page.Items, it)
			size += it.Size()
		}
		if len(out.LastEvaluatedKey) == 0 {
			return s.rows(ctx, q, page)
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func sortKey(p store.Plan, it store.Item) string {
	if p.Index == "" {
		return it.Key.SK
	}
	return it.Index[p.Index].SK
}

func (s *Store) request(p store.Plan) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName: &s.table, ScanIndexForward: aws.Bool(!p.Reverse), ReturnConsumedCapacity: s.capacity(),
		ConsistentRead: aws.Bool(p.Index == ""),
	}
	pk, sk := attrPK, attrSK
	if p.Index != "" {
		in.IndexName = aws.String(string(p.Index))
		pk, sk = slotNames(p.Index)
	}
	e := newExpression()
	text := e.name(pk) + " = " + e.value(p.PK)
	switch {
	case p.Prefix != "":
		text += " AND begins_with(" + e.name(sk) + ", " + e.value(p.Prefix) + ")"
	case p.From != "" && p.To != "":
		text += " AND " + e.name(sk) + " BETWEEN " + e.value(p.From) + " AND " + e.value(p.To)
	case p.From != "":
		text += " AND " + e.name(sk) + " >= " + e.value(p.From)
	case p.To != "":
		text += " AND " + e.name(sk) + " < " + e.value(p.To)
	}
	in.KeyConditionExpression = &text
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.maps()
	if p.After != nil {
		in.ExclusiveStartKey = keyOf(p.After.Key)
		if p.Index != "" {
			in.ExclusiveStartKey[pk], in.ExclusiveStartKey[sk] = value(p.After.Slot.PK), value(p.After.Slot.SK)
		}
	}
	return in
}
