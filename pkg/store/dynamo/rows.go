package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// batch is the most keys that one request reads.
const batch = 100

// rows reads the rows that a page of an index names. An index holds keys alone:
// with whole rows in it, every change of a row would be paid twice. A row that has
// left its place since is not on the page; where it went, a query finds it.
func (s *Store) rows(ctx context.Context, q store.Query, page store.Page) (store.Page, error) {
	if q.Index == "" {
		return page, nil
	}
	entries := page.Items
	page.Items = nil
	size := 0
	for len(entries) > 0 {
		n := min(batch, len(entries))
		found, err := s.getAll(ctx, entries[:n])
		if err != nil {
			return store.Page{}, typed(err, "read rows of %s %s", q.Index, q.PK)
		}
		for i, e := range entries[:n] {
			it, ok := found[e.Key]
			if !ok || it.Index[q.Index] != e.Index[q.Index] {
				continue
			}
			page.Items = append(page.Items, it)
			if size += it.Size(); size > store.PageBytes && (i+1 < len(entries) || page.Next != "") {
				page.Next = q.CursorAfter(e)
				return page, nil
			}
		}
		entries = entries[n:]
	}
	return page, nil
}

func (s *Store) getAll(ctx context.Context, entries []store.Item) (map[store.Key]store.Item, error) {
	var keys []values
	for _, e := range entries {
		keys = append(keys, keyOf(e.Key))
	}
	found := make(map[store.Key]store.Item, len(entries))
	for try := 0; len(keys) > 0; try++ {
		if try > 0 { // the table left some out: a large page, or too much at once
			if try == tries {
				return nil, crowded()
			}
			if err := s.wait(ctx, try-1); err != nil {
				return nil, err
			}
		}
		var out *dynamodb.BatchGetItemOutput
		err := s.read(ctx, func() (err error) {
			out, err = s.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
				RequestItems:           map[string]types.KeysAndAttributes{s.table: {Keys: keys, ConsistentRead: aws.Bool(true)}},
				ReturnConsumedCapacity: s.capacity(),
			})
			return err
		})
		if err != nil {
			return nil, err
		}
		s.consumed(false, out.ConsumedCapacity...)
		left := out.UnprocessedKeys[s.table].Keys
		if len(left) < len(keys) {
			try = 0
		}
		keys = left
		for _, m := range out.Responses[s.table] {
			it, err := fromItem(m)
			if err != nil {
				return nil, err
			}
			found[it.Key] = it
		}
	}
	return found, nil
}
