// Package refusal is the one catalogue of refusals: a code, what it means on the
// wire, an exact text, and what to do next per surface (surfaces 1.4). A refusal
// has written nothing (OT-044).
package refusal

import (
	"fmt"
	"strings"
	"sync"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Code names a refusal, for example "task_busy".
type Code string

// Row is one entry of the catalogue. Message holds ⟨slots⟩ that Of fills in
// order; a slot in Next takes the value of the first slot of that name.
type Row struct {
	Code    Code
	Kind    fault.Kind
	CLIOnly bool // never leaves the CLI: it has no HTTP form
	Message string
	Next    []fault.Next
}

var slot = pattern.New(`⟨[^⟩]*⟩`)

var index = sync.OnceValue(func() map[Code]Row {
	m := map[Code]Row{}
	for _, r := range Rows() {
		if _, dup := m[r.Code]; dup {
			panic("refusal: duplicate code " + string(r.Code))
		}
		m[r.Code] = r
	}
	return m
})

// Slots returns how many values Of needs for code.
func Slots(code Code) int { return len(slot.FindAllString(index()[code].Message, -1)) }

// Kind returns what a code means on the wire; false for an unknown code.
func Kind(code Code) (fault.Kind, bool) {
	r, ok := index()[code]
	return r.Kind, ok
}

// Of builds the refusal named code, its slots filled in order by args. A wrong
// number of args is a programming error and panics.
func Of(code Code, args ...any) *fault.Error {
	r, ok := index()[code]
	if !ok {
		panic("refusal: unknown code " + string(code))
	}
	names := slot.FindAllString(r.Message, -1)
	if len(names) != len(args) {
		panic(fmt.Sprintf("refusal: %s has %d slots, got %d values", code, len(names), len(args)))
	}
	vals := map[string]string{}
	i := 0
	msg := slot.ReplaceAllStringFunc(r.Message, func(n string) string {
		v := fmt.Sprint(args[i])
		i++
		if _, seen := vals[n]; !seen {
			vals[n] = v
		}
		return v
	})
	next := make([]fault.Next, len(r.Next))
	for j, n := range r.Next {
		n.Text = slot.ReplaceAllStringFunc(n.Text, func(name string) string {
			if v, ok := vals[name]; ok {
				return v
			}
			return strings.Trim(name, "⟨⟩")
		})
		next[j] = n
	}
	return &fault.Error{Kind: r.Kind, Code: string(code), Public: msg, Next: next}
}

// Is reports whether err is the refusal named code.
func Is(err error, code Code) bool { return err != nil && fault.Code(err) == string(code) }
