package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// The number of items on a page: when a query does not say, and at most.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// PageBytes is the weight after which an adapter ends a page early.
const PageBytes = 1 << 20

// Place is where an item stands in the order of a query.
type Place struct {
	Key  Key
	Slot Slot // in the query's index; zero for the table
}

// Plan is a query made ready for an adapter: bounds resolved, limit set, cursor
// opened and known to belong to it.
type Plan struct {
	Index   Index
	PK      string
	Prefix  string // as in the query; From and To say the same
	From    string // inclusive
	To      string // exclusive; "" when open
	Reverse bool
	Limit   int
	After   *Place // nil on the first page
	// Empty is set when no item can be within the bounds.
	Empty bool
}

// Plan checks the query and resolves it. It returns ErrCursor for a cursor that
// the query did not give out.
func (q Query) Plan() (Plan, error) {
	p := Plan{Index: q.Index, PK: q.PK, Prefix: q.Prefix, From: q.From, To: q.To, Reverse: q.Reverse, Limit: q.Limit}
	switch {
	case q.Index != "" && q.Index != Due && q.Index != Past && q.Index != Find:
		return Plan{}, fmt.Errorf("store: no index %q", q.Index)
	case q.PK == "":
		return Plan{}, fmt.Errorf("store: a query names a partition")
	case q.Prefix != "" && (q.From != "" || q.To != ""):
		return Plan{}, fmt.Errorf("store: a query has a prefix or a range, not both")
	case q.Limit < 0:
		return Plan{}, fmt.Errorf("store: a query of %d items", q.Limit)
	}
	for _, s := range []string{q.PK, q.Prefix, q.From, q.To} {
		if !utf8.ValidString(s) {
			return Plan{}, fmt.Errorf("store: a query is valid UTF-8")
		}
	}
	if p.Limit == 0 {
		p.Limit = DefaultLimit
	}
	p.Limit = min(p.Limit, MaxLimit)
	if q.Prefix != "" {
		p.From, p.To = q.Prefix, successor(q.Prefix)
	}
	p.Empty = p.To != "" && p.From >= p.To
	if q.Cursor == "" {
		return p, nil
	}
	at, err := q.open()
	if err != nil {
		return Plan{}, err
	}
	p.After = &at
	return p, nil
}

// successor returns the smallest string above every string that begins with s,
// "" when there is none.
func successor(s string) string {
	b := []byte(s)
	for len(b) > 0 {
		if b[len(b)-1] < 0xff {
			b[len(b)-1]++
			return string(b)
		}
		b = b[:len(b)-1]
	}
	return ""
}

// sealed is the text of a cursor: the digest of the query that gave it out, and
// the place after which the next page begins.
type sealed struct {
	Query string   `json:"q"`
	At    []string `json:"a"` // pk, sk, and the slot's sk when there is an index
}

func (q Query) digest() string {
	h := sha256.New()
	for _, s := range []string{string(q.Index), q.PK, q.Prefix, q.From, q.To, fmt.Sprint(q.Reverse)} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:9])
}

// CursorAfter returns the cursor of the page that begins after it, the last
// item of a page. The limit is not part of the query's identity.
func (q Query) CursorAfter(it Item) string {
	s := sealed{Query: q.digest(), At: []string{it.Key.PK, it.Key.SK}}
	if q.Index != "" {
		s.At = append(s.At, it.Index[q.Index].SK)
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic("store: strings that cannot be JSON: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func (q Query) open() (Place, error) {
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return Place{}, ErrCursor
	}
	var s sealed
	if err := json.Unmarshal(b, &s); err != nil || s.Query != q.digest() {
		return Place{}, ErrCursor
	}
	switch {
	case q.Index == "" && len(s.At) == 2 && s.At[0] == q.PK:
		return Place{Key: Key{s.At[0], s.At[1]}}, nil
	case q.Index != "" && len(s.At) == 3:
		return Place{Key: Key{s.At[0], s.At[1]}, Slot: Slot{PK: q.PK, SK: s.At[2]}}, nil
	}
	return Place{}, ErrCursor
}
