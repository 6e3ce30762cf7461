package sqlite

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// record is the stored form of all of an item but its key and document. The
// kinds of attributes are kept apart, so that each comes back as it went in.
type record struct {
	Text    map[string]string         `json:"s,omitempty"`
	Number  map[string]int64          `json:"n,omitempty"`
	Flag    map[string]bool           `json:"b,omitempty"`
	Place   map[store.Index][2]string `json:"i,omitempty"`
	Expires int64                     `json:"x,omitempty"`
}

func encode(it store.Item) ([]byte, error) {
	var r record
	for name, v := range it.Attr {
		switch v := v.(type) {
		case string:
			if r.Text == nil {
				r.Text = map[string]string{}
			}
			r.Text[name] = v
		case int64:
			if r.Number == nil {
				r.Number = map[string]int64{}
			}
			r.Number[name] = v
		case bool:
			if r.Flag == nil {
				r.Flag = map[string]bool{}
			}
			r.Flag[name] = v
		}
	}
	if len(it.Index) > 0 {
		r.Place = make(map[store.Index][2]string, len(it.Index))
		for x, s := range it.Index {
			r.Place[x] = [2]string{s.PK, s.SK}
		}
	}
	if !it.Expires.IsZero() {
		r.Expires = it.Expires.Unix()
	}
	return json.Marshal(r)
}

func decode(k store.Key, rec, doc any) (store.Item, error) {
	b, _ := rec.([]byte)
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return store.Item{}, &damaged{fmt.Errorf("read item %s: %w", k, err)}
	}
	it := store.Item{Key: k, Attr: make(store.Attr, len(r.Text)+len(r.Number)+len(r.Flag))}
	for name, v := range r.Text {
		it.Attr[name] = v
	}
	for name, v := range r.Number {
		it.Attr[name] = v
	}
	for name, v := range r.Flag {
		it.Attr[name] = v
	}
	if len(r.Place) > 0 {
		it.Index = make(map[store.Index]store.Slot, len(r.Place))
		for x, s := range r.Place {
			it.Index[x] = store.Slot{PK: s[0], SK: s[1]}
		}
	}
	if r.Expires != 0 {
		it.Expires = time.Unix(r.Expires, 0).UTC()
	}
	it.Doc, _ = doc.([]byte)
	return it, nil
}
