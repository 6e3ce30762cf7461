package dynamo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// expression collects the placeholders of one request. Every name and value
// goes through one, so that no word of a caller is ever read as syntax and no
// reserved word gets in the way.
type expression struct {
	names  map[string]string
	values values
	of     map[string]string // attribute name to its placeholder
}

func newExpression() *expression {
	return &expression{names: map[string]string{}, values: values{}, of: map[string]string{}}
}

func (e *expression) name(s string) string {
	if p, ok := e.of[s]; ok {
		return p
	}
	p := fmt.Sprintf("#n%d", len(e.names))
	e.names[p], e.of[s] = s, p
	return p
}

func (e *expression) value(v any) string { return e.raw(value(v)) }

func (e *expression) raw(v types.AttributeValue) string {
	p := fmt.Sprintf(":v%d", len(e.values))
	e.values[p] = v
	return p
}

// maps returns the placeholders as a request wants them: nil when there are none.
func (e *expression) maps() (map[string]string, values) {
	n, v := e.names, e.values
	if len(n) == 0 {
		n = nil
	}
	if len(v) == 0 {
		v = nil
	}
	return n, v
}

// condition renders conditions; nil when there are none.
func (e *expression) condition(conds []store.Cond) *string {
	if len(conds) == 0 {
		return nil
	}
	var parts []string
	for _, c := range conds {
		parts = append(parts, e.one(c))
	}
	s := strings.Join(parts, " AND ")
	return &s
}

func (e *expression) one(c store.Cond) string {
	switch c.Op {
	case store.OpAbsent:
		return "attribute_not_exists(" + e.name(attrPK) + ")"
	case store.OpPresent:
		return "attribute_exists(" + e.name(attrPK) + ")"
	case store.OpEqual:
		return e.name(c.Field) + " = " + e.value(c.Value)
	case store.OpNotEqual:
		n := e.name(c.Field)
		return "(attribute_not_exists(" + n + ") OR " + n + " <> " + e.value(c.Value) + ")"
	case store.OpLess:
		// The order of two kinds of value is nobody's business: the kind is compared first.
		kind := "N"
		if _, ok := c.Value.(string); ok {
			kind = "S"
		}
		n := e.name(c.Field)
		return "(attribute_type(" + n + ", " + e.value(kind) + ") AND " + n + " < " + e.value(c.Value) + ")"
	case store.OpIn:
		var members []string
		for _, m := range c.Set {
			members = append(members, e.value(m))
		}
		return e.name(c.Field) + " IN (" + strings.Join(members, ", ") + ")"
	}
	panic("dynamo: condition " + string(c.Op) + " passed validation")
}

// update renders what an update changes, and leaves the token of a single write
// in the item. The order is fixed, so that a repeated request is the same request.
func (e *expression) update(w store.Write, by string) string {
	var set, remove, add []string
	for _, name := range slices.Sorted(maps.Keys(w.Set)) {
		set = append(set, e.name(name)+" = "+e.value(w.Set[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Add)) {
		add = append(add, e.name(name)+" "+e.value(w.Add[name]))
	}
	for _, name := range w.Unset {
		remove = append(remove, e.name(name))
	}
	if w.Item.Doc != nil {
		if len(w.Item.Doc) == 0 {
			remove = append(remove, e.name(attrDoc))
		} else {
			set = append(set, e.name(attrDoc)+" = "+e.raw(&types.AttributeValueMemberB{Value: store.Pack(w.Item.Doc)}))
		}
	}
	if w.Item.Index != nil {
		for _, x := range store.Indexes() {
			pk, sk := slotNames(x)
			if s, ok := w.Item.Index[x]; ok {
				set = append(set, e.name(pk)+" = "+e.value(s.PK), e.name(sk)+" = "+e.value(s.SK))
			} else {
				remove = append(remove, e.name(pk), e.name(sk))
			}
		}
	}
	if !w.Item.Expires.IsZero() {
		set = append(set, e.name(attrTTL)+" = "+e.value(w.Item.Normal().Expires.Unix()))
	}
	if by != "" {
		set = append(set, e.name(attrBy)+" = "+e.value(by))
	} else if len(set)+len(remove)+len(add) == 0 {
		remove = append(remove, e.name(attrBy)) // a transaction needs some change
	}
	var parts []string
	for _, c := range []struct {
		word string
		list []string
	}{{"SET ", set}, {"REMOVE ", remove}, {"ADD ", add}} {
		if len(c.list) > 0 {
			parts = append(parts, c.word+strings.Join(c.list, ", "))
		}
	}
	return strings.Join(parts, " ")
}
