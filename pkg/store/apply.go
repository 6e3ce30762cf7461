package store

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Holds reports whether the condition is true of an item, or of its absence.
// It is the meaning of every condition in one place: an adapter that leaves the
// evaluation to its database uses it to name the condition that failed.
func (c Cond) Holds(it Item, exists bool) bool {
	v, ok := it.Attr[c.Field]
	ok = ok && exists
	switch c.Op {
	case OpAbsent:
		return !exists
	case OpPresent:
		return exists
	case OpEqual:
		return ok && v == c.Value
	case OpNotEqual:
		return !ok || v != c.Value
	case OpLess:
		switch want := c.Value.(type) {
		case int64:
			n, is := v.(int64)
			return ok && is && n < want
		case string:
			s, is := v.(string)
			return ok && is && s < want
		}
	case OpIn:
		s, is := v.(string)
		return ok && is && slices.Contains(c.Set, s)
	}
	return false
}

// Refused returns the first condition of the write that is false of an item, or
// of its absence.
func (w Write) Refused(it Item, exists bool) (Cond, bool) {
	for _, c := range w.If {
		if !c.Holds(it, exists) {
			return c, true
		}
	}
	return Cond{}, false
}

// Apply returns the item as it stands after the write and whether there still
// is one. It looks at no condition, and shares no map with before.
func (w Write) Apply(before Item, exists bool) (Item, bool, error) {
	switch w.Act {
	case Check:
		return before, exists, nil
	case Delete:
		return Item{Key: w.Item.Key}, false, nil
	case Put:
		it := w.Item
		it.Attr = maps.Clone(it.Attr)
		return it.Normal(), true, nil
	case Update: // the rest
	}
	it := Item{Key: w.Item.Key, Attr: Attr{}}
	if exists {
		it = before
		it.Attr = maps.Clone(before.Attr)
	}
	maps.Copy(it.Attr, w.Set)
	for name, by := range w.Add {
		was, ok := it.Attr[name].(int64)
		if _, there := it.Attr[name]; there && !ok {
			return Item{}, false, fmt.Errorf("store: attribute %s of %s is not a number", name, it.Key)
		}
		if (by > 0 && was > math.MaxInt64-by) || (by < 0 && was < math.MinInt64-by) {
			return Item{}, false, fmt.Errorf("store: attribute %s of %s would overflow", name, it.Key)
		}
		it.Attr[name] = was + by
	}
	for _, name := range w.Unset {
		delete(it.Attr, name)
	}
	if w.Item.Doc != nil {
		it.Doc = w.Item.Doc
	}
	if w.Item.Index != nil {
		it.Index = w.Item.Index
	}
	if !w.Item.Expires.IsZero() {
		it.Expires = w.Item.Expires
	}
	if n := it.Size(); n > MaxItem {
		return Item{}, false, fmt.Errorf("store: %s would weigh %d bytes, more than %d", it.Key, n, MaxItem)
	}
	return it.Normal(), true, nil
}

// Normal returns the item the way every adapter gives it back: attributes never
// nil, an empty document or set of places always nil, the expiry in UTC and
// rounded up to the second.
func (i Item) Normal() Item {
	if i.Attr == nil {
		i.Attr = Attr{}
	}
	if len(i.Doc) == 0 {
		i.Doc = nil
	}
	i.Index = maps.Clone(i.Index)
	if len(i.Index) == 0 {
		i.Index = nil
	}
	if !i.Expires.IsZero() {
		up := i.Expires.Unix()
		if i.Expires.Nanosecond() > 0 {
			up++
		}
		i.Expires = time.Unix(up, 0).UTC()
	}
	return i
}
