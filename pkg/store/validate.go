package store

import (
	"fmt"
	"unicode/utf8"
)

// MaxBytes is the most a whole transaction may weigh. More is a fault before it
// is a request, like more than MaxWrites writes.
const MaxBytes = 4_000_000

// The longest keys an adapter can hold, in bytes, in the table and in an index.
const (
	MaxPK = 2048
	MaxSK = 1024
)

// reserved are the names an adapter may need for itself on an item.
var reserved = map[string]bool{
	"pk": true, "sk": true, "doc": true, "ttl": true, "_": true,
	"due_pk": true, "due_sk": true, "past_pk": true, "past_sk": true, "find_pk": true, "find_sk": true,
}

// Size is the weight of the item in bytes, as MaxItem counts it.
func (i Item) Size() int {
	n := len(i.Key.PK) + len(i.Key.SK) + len(i.Doc) + i.Attr.size()
	for _, s := range i.Index {
		n += len(s.PK) + len(s.SK)
	}
	return n
}

func (a Attr) size() int {
	n := 0
	for name, v := range a {
		n += len(name) + 10
		if s, ok := v.(string); ok {
			n += len(s)
		}
	}
	return n
}

// Validate refuses a transaction no adapter could run, or none could run the
// same way: too many writes, two on one key, a key without a tenant, an
// attribute of an unknown type, a part that the act would ignore.
func Validate(ws []Write) error {
	if len(ws) == 0 || len(ws) > MaxWrites {
		return fmt.Errorf("store: a transaction holds 1 to %d writes, not %d", MaxWrites, len(ws))
	}
	seen := make(map[Key]bool, len(ws))
	total := 0
	for i, w := range ws {
		k := w.Item.Key
		if len(k.PK) < 3 || k.PK[:2] != "T#" || k.SK == "" {
			return fmt.Errorf("store: write %d has no tenant in its key %q", i, k)
		}
		if err := validKey(k.PK, k.SK); err != nil {
			return fmt.Errorf("store: the key of write %d %w", i, err)
		}
		if seen[k] {
			return fmt.Errorf("store: two writes on %s", k)
		}
		seen[k] = true
		if err := w.valid(); err != nil {
			return fmt.Errorf("store: the %s of %s %w", w.Act, k, err)
		}
		total += w.Item.Size() + w.Set.size()
	}
	if total > MaxBytes {
		return fmt.Errorf("store: a transaction weighs at most %d bytes, not %d", MaxBytes, total)
	}
	return nil
}

func validKey(pk, sk string) error {
	switch {
	case pk == "" || sk == "":
		return fmt.Errorf("has an empty part")
	case len(pk) > MaxPK:
		return fmt.Errorf("has a partition of %d bytes, more than %d", len(pk), MaxPK)
	case len(sk) > MaxSK:
		return fmt.Errorf("has a sort key of %d bytes, more than %d", len(sk), MaxSK)
	case !utf8.ValidString(pk) || !utf8.ValidString(sk):
		return fmt.Errorf("is not valid UTF-8")
	}
	return nil
}

func (w Write) valid() error {
	merges := len(w.Set)+len(w.Add)+len(w.Unset) > 0
	content := w.Item.Doc != nil || w.Item.Index != nil || !w.Item.Expires.IsZero()
	switch w.Act {
	case Put:
		if merges {
			return fmt.Errorf("has parts that only an update has")
		}
	case Update:
		if w.Item.Attr != nil {
			return fmt.Errorf("names attributes outside Set")
		}
	case Delete, Check:
		if merges || content || w.Item.Attr != nil {
			return fmt.Errorf("carries content that it would not write")
		}
		if w.Act == Check && len(w.If) == 0 {
			return fmt.Errorf("has no condition")
		}
	default:
		return fmt.Errorf("is not an act")
	}
	for _, a := range []Attr{w.Item.Attr, w.Set} {
		for name, v := range a {
			if err := validAttr(name, v); err != nil {
				return err
			}
		}
	}
	touched := make(map[string]bool, len(w.Set)+len(w.Add)+len(w.Unset))
	for name := range w.Set {
		touched[name] = true
	}
	for name := range w.Add {
		if err := validAttr(name, int64(0)); err != nil {
			return err
		}
		if touched[name] {
			return fmt.Errorf("touches attribute %s twice", name)
		}
		touched[name] = true
	}
	for _, name := range w.Unset {
		if err := validAttr(name, int64(0)); err != nil {
			return err
		}
		if touched[name] {
			return fmt.Errorf("touches attribute %s twice", name)
		}
		touched[name] = true
	}
	for x, s := range w.Item.Index {
		if x != Due && x != Past && x != Find {
			return fmt.Errorf("names an index %q", x)
		}
		if err := validKey(s.PK, s.SK); err != nil {
			return fmt.Errorf("has a place in %s that %w", x, err)
		}
	}
	if n := w.Item.Size() + w.Set.size(); n > MaxItem {
		return fmt.Errorf("weighs %d bytes, more than %d", n, MaxItem)
	}
	for _, c := range w.If {
		if err := c.valid(); err != nil {
			return err
		}
	}
	return nil
}

func validAttr(name string, v any) error {
	if name == "" || reserved[name] || !utf8.ValidString(name) {
		return fmt.Errorf("may not have an attribute named %q", name)
	}
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return fmt.Errorf("has an attribute %s that is not valid UTF-8", name)
		}
	case int64, bool:
	default:
		return fmt.Errorf("has an attribute %s that is a %T", name, v)
	}
	return nil
}

func (c Cond) valid() error {
	switch c.Op {
	case OpAbsent, OpPresent:
		return nil
	case OpEqual, OpNotEqual:
		return validAttr(c.Field, c.Value)
	case OpLess:
		if _, ok := c.Value.(bool); ok {
			return fmt.Errorf("orders attribute %s by a bool", c.Field)
		}
		return validAttr(c.Field, c.Value)
	case OpIn:
		if len(c.Set) == 0 || len(c.Set) > 100 {
			return fmt.Errorf("looks for attribute %s among %d values, not 1 to 100", c.Field, len(c.Set))
		}
		return validAttr(c.Field, "")
	}
	return fmt.Errorf("has a condition %q", c.Op)
}
