// Package store is the narrow port to the one table: get, query by partition,
// and a transaction of conditional writes (DESIGN 4). No caller writes an
// expression, and no key exists that does not begin with a tenant: For is the
// only way to one. The adapters in store/sqlite and store/dynamo are held to the
// same contract by store/storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxWrites is the most writes one transaction may hold. More is a fault before
// it is a request; fan-out is outbox work.
const MaxWrites = 100

// MaxItem is the largest encoded item in bytes an adapter accepts. Callers keep
// to the much smaller limits of DESIGN 4.
const MaxItem = 400_000

// Key addresses an item. Only this package's builders make one.
type Key struct{ PK, SK string }

func (k Key) String() string { return k.PK + " " + k.SK }

// Attr holds the fields of an item that conditions and indexes can see. A value
// is a string, an int64 or a bool.
type Attr map[string]any

// The attribute names that have a meaning to the port.
const (
	AttrVersion = "version" // int64
	AttrStatus  = "status"  // string
	AttrEpoch   = "epoch"   // int64
	AttrParent  = "parent"  // string
	AttrType    = "type"    // string, the record's kind, on every item
	AttrProject = "project" // string, on a history row, whose event is told from the row alone
	AttrFollow  = "follow"  // bool, on an item whose writing asks for work, as an outbox row does
)

// Index names a secondary index. Reads through an index may lag.
type Index string

// The indexes. Due holds every row that something must still happen to; Past
// holds finished tasks of a project, newest last; Find holds searchable text rows.
const (
	Due  Index = "due"
	Past Index = "past"
	Find Index = "find"
)

// Indexes lists them all.
func Indexes() []Index { return []Index{Due, Past, Find} }

// Slot is an item's place in an index.
type Slot struct{ PK, SK string }

// Item is one row: conditionable attributes, an opaque document, places in
// indexes, and an expiry that only ever means garbage.
type Item struct {
	Key   Key
	Attr  Attr
	Doc   []byte
	Index map[Index]Slot
	// Expires, when not zero, allows the row to be collected some time after.
	// A row past it may still be returned: expiry is a comparison by the caller.
	// It is kept to the whole second, rounded up.
	Expires time.Time
}

// Str returns a string attribute, "" when absent.
func (i Item) Str(name string) string { s, _ := i.Attr[name].(string); return s }

// Int returns an int64 attribute, 0 when absent.
func (i Item) Int(name string) int64 { n, _ := i.Attr[name].(int64); return n }

// Op is the kind of a condition. The set is closed.
type Op string

// The conditions. Absent and Present look at the whole item; the rest compare one
// attribute and are false when it is missing, except NotEqual, which is then true.
const (
	OpAbsent   Op = "absent"
	OpPresent  Op = "present"
	OpEqual    Op = "equal"
	OpNotEqual Op = "not-equal"
	OpLess     Op = "less" // int64 or string, strictly
	OpIn       Op = "in"   // string among Set
)

// Cond is one condition on the item a write addresses; all of a write's
// conditions must hold.
type Cond struct {
	Op    Op
	Field string
	Value any
	Set   []string
}

// Absent holds when there is no such item.
func Absent() Cond { return Cond{Op: OpAbsent} }

// Present holds when the item exists.
func Present() Cond { return Cond{Op: OpPresent} }

// VersionIs holds when the item's version equals n.
func VersionIs(n int64) Cond { return Cond{Op: OpEqual, Field: AttrVersion, Value: n} }

// EpochIs holds when the item's epoch equals n.
func EpochIs(n int64) Cond { return Cond{Op: OpEqual, Field: AttrEpoch, Value: n} }

// StatusIn holds when the item's status is one of set.
func StatusIn(set ...string) Cond { return Cond{Op: OpIn, Field: AttrStatus, Set: set} }

// FieldIs holds when a field equals v.
func FieldIs(name string, v any) Cond { return Cond{Op: OpEqual, Field: name, Value: v} }

// FieldNot holds when a field is missing or differs from v.
func FieldNot(name string, v any) Cond { return Cond{Op: OpNotEqual, Field: name, Value: v} }

// FieldLess holds when a field is present and smaller than v.
func FieldLess(name string, v any) Cond { return Cond{Op: OpLess, Field: name, Value: v} }

// Act is what a write does. The set is closed.
type Act string

// The acts. Put replaces the whole item; Update merges Set, adds Add to int64
// attributes (missing counts as 0), removes Unset, and replaces the document
// when Doc is not nil, the index places when Index is not nil, and the expiry
// when it is not zero; it creates the item if no condition forbids it. Check
// writes nothing.
const (
	Put    Act = "put"
	Update Act = "update"
	Delete Act = "delete"
	Check  Act = "check"
)

// Write is one member of a transaction. No two writes may address one key.
type Write struct {
	Act   Act
	Item  Item // Put; for Update: Key, Doc, Index, Expires; else Key only
	Set   Attr
	Add   map[string]int64
	Unset []string
	If    []Cond
}

// Query reads one partition of the table or of an index in order of the sort
// key. From is inclusive and To exclusive; Prefix excludes both. A query through
// an index may lag behind acknowledged writes; one on the table may not.
type Query struct {
	Index   Index // "" for the table
	PK      string
	Prefix  string
	From    string
	To      string
	Reverse bool
	Limit   int    // 0 means 100; at most 1000
	Cursor  string // from Page.Next; opaque; belongs to the same query
}

// Page is a part of a query's answer, in items up to the limit and in bytes up to
// about PageBytes. Next is "" at the end and never elsewhere. With writers at work, following the cursors never skips nor repeats a row that was there
// throughout.
type Page struct {
	Items []Item
	Next  string
}

// ErrNotFound is returned by Get for an absent item.
var ErrNotFound = errors.New("store: no such item")

// ErrCursor is returned for a cursor that this query did not give out.
var ErrCursor = errors.New("store: that cursor does not belong to this query")

// ConflictError says which write of a transaction was refused. Nothing was
// written. Current is the item as it stood, with a nil Attr when absent, so that
// one round trip says who won.
type ConflictError struct {
	Write   int // position of the first refused write
	Key     Key
	Failed  Cond // zero when the adapter cannot tell which condition
	Current Item
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("store: write %d on %s was refused (%s %s)", e.Write, e.Key, e.Failed.Op, e.Failed.Field)
}

// Store is the port. Get and table queries are consistent reads. Transact is all
// or nothing and durable when it returns; it answers *ConflictError when a
// condition failed, ErrContention when the adapter gave up after its own bounded
// retries, and any other error when the outcome is unknown.
type Store interface {
	Get(ctx context.Context, k Key) (Item, error)
	Query(ctx context.Context, q Query) (Page, error)
	Transact(ctx context.Context, ws ...Write) error
}

// ErrContention means other transactions kept touching the same items.
var ErrContention = errors.New("store: too much contention on these items")

// All follows a query's cursors to the end, calling yield for each item until it
// returns false.
func All(ctx context.Context, s Store, q Query, yield func(Item) bool) error {
	for {
		p, err := s.Query(ctx, q)
		if err != nil {
			return err
		}
		for _, it := range p.Items {
			if !yield(it) {
				return nil
			}
		}
		if p.Next == "" {
			return nil
		}
		q.Cursor = p.Next
	}
}
