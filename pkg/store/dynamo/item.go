package dynamo

import (
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// The attributes that are not an item's own. store.Validate keeps callers from
// these names; an index adds its name with _pk and _sk.
const (
	attrPK  = "pk"
	attrSK  = "sk"
	attrDoc = "doc"
	// attrTTL is in seconds, as DynamoDB wants the time it may delete an item at.
	attrTTL = "ttl"
	// attrBy is the token of the single write that wrote the item last; a
	// transaction leaves or removes it.
	attrBy = "_"
)

type values = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// value encodes what store.Validate admits.
func value(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return text(v)
	case int64:
		return number(v)
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	}
	panic(fmt.Sprintf("dynamo: a %T passed validation", v))
}

func keyOf(k store.Key) values { return values{attrPK: text(k.PK), attrSK: text(k.SK)} }

func slotNames(x store.Index) (pk, sk string) { return string(x) + "_pk", string(x) + "_sk" }

func toItem(it store.Item) values {
	m := keyOf(it.Key)
	for name, v := range it.Attr {
		m[name] = value(v)
	}
	if len(it.Doc) > 0 {
		m[attrDoc] = &types.AttributeValueMemberB{Value: store.Pack(it.Doc)}
	}
	for x, s := range it.Index {
		pk, sk := slotNames(x)
		m[pk], m[sk] = text(s.PK), text(s.SK)
	}
	if !it.Expires.IsZero() {
		m[attrTTL] = number(it.Normal().Expires.Unix())
	}
	return m
}

func fromItem(m values) (store.Item, error) {
	it := store.Item{Attr: store.Attr{}}
	var slots [3]store.Slot
	into := map[string]*string{attrPK: &it.Key.PK, attrSK: &it.Key.SK}
	for i, x := range store.Indexes() {
		pk, sk := slotNames(x)
		into[pk], into[sk] = &slots[i].PK, &slots[i].SK
	}
	for name, v := range m {
		if name == attrBy {
			continue
		}
		if p, ok := into[name]; ok {
			s, ok := v.(*types.AttributeValueMemberS)
			if !ok {
				return store.Item{}, fmt.Errorf("read item: %s is a %T", name, v)
			}
			*p = s.Value
			continue
		}
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			it.Attr[name] = v.Value
		case *types.AttributeValueMemberBOOL:
			it.Attr[name] = v.Value
		case *types.AttributeValueMemberN:
			n, err := strconv.ParseInt(v.Value, 10, 64)
			if err != nil {
				return store.Item{}, fmt.Errorf("read item: attribute %s: %w", name, err)
			}
			if name == attrTTL {
				it.Expires = time.Unix(n, 0).UTC()
			} else {
				it.Attr[name] = n
			}
		case *types.AttributeValueMemberB:
			if name != attrDoc {
				return store.Item{}, fmt.Errorf("read item: attribute %s is binary", name)
			}
			doc, err := store.Unpack(v.Value)
			if err != nil {
				return store.Item{}, fmt.Errorf("read item: %w", err)
			}
			it.Doc = doc
		default:
			return store.Item{}, fmt.Errorf("read item: attribute %s is a %T", name, v)
		}
	}
	for i, x := range store.Indexes() {
		if slots[i].PK != "" {
			if it.Index == nil {
				it.Index = map[store.Index]store.Slot{}
			}
			it.Index[x] = slots[i]
		}
	}
	return it.Normal(), nil
}
