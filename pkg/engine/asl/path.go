package asl

import (
	"fmt"
	"maps"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Path is a reference path: "$", "$.a.b" or, into the context object,
// "$$.Task.Token". A ResultPath may also be null, which is None.
type Path struct {
	Text    string
	Context bool
	None    bool
	names   []string
}

var name = pattern.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// The members of the context object that exist alike on every engine.
const (
	ctxName    = "$$.Execution.Name"
	ctxState   = "$$.State.Name"
	ctxEntered = "$$.State.EnteredTime"
	ctxRetries = "$$.State.RetryCount"
	ctxToken   = "$$.Task.Token"
)

// Context is the context object a state sees.
type Context struct {
	Execution string
	State     string
	Entered   string
	Retries   int
	Token     string
}

func parsePath(s string) (Path, error) {
	switch s {
	case ctxName, ctxState, ctxEntered, ctxRetries, ctxToken:
		return Path{Text: s, Context: true}, nil
	case "$":
		return Path{Text: s}, nil
	}
	rest, ok := strings.CutPrefix(s, "$.")
	if !ok {
		return Path{}, fmt.Errorf("%q is not a reference path of the subset", s)
	}
	p := Path{Text: s, names: strings.Split(rest, ".")}
	for _, n := range p.names {
		if !name.MatchString(n) {
			return Path{}, fmt.Errorf("%q is not a reference path of the subset", s)
		}
	}
	return p, nil
}

// Get follows the path. ok is false when data has no such member.
func (p Path) Get(data any, c Context) (v any, ok bool) {
	if p.Context {
		return c.get(p.Text)
	}
	for _, n := range p.names {
		m, isMap := data.(map[string]any)
		if !isMap {
			return nil, false
		}
		if data, ok = m[n]; !ok {
			return nil, false
		}
	}
	return data, true
}

func (c Context) get(text string) (any, bool) {
	switch text {
	case ctxName:
		return c.Execution, true
	case ctxState:
		return c.State, true
	case ctxEntered:
		return c.Entered, true
	case ctxRetries:
		return c.Retries, true
	case ctxToken:
		return c.Token, c.Token != ""
	}
	return nil, false
}

// Set returns data with v put at the path; data itself is not changed. It fails
// where the path runs through something that is not an object.
func (p Path) Set(data, v any) (any, error) {
	if p.None {
		return data, nil
	}
	return setAt(data, p.names, v, p.Text)
}

func setAt(data any, names []string, v any, text string) (any, error) {
	if len(names) == 0 {
		return v, nil
	}
	m, ok := data.(map[string]any)
	if !ok && data != nil {
		return nil, fmt.Errorf("the path %s runs through a value that is not an object", text)
	}
	out := make(map[string]any, len(m)+1)
	maps.Copy(out, m)
	child, err := setAt(out[names[0]], names[1:], v, text)
	if err != nil {
		return nil, err
	}
	out[names[0]] = child
	return out, nil
}

// Template is a payload template: JSON in which a member whose name ends in ".$"
// takes its value from a path.
type Template interface {
	// Fill returns the value for data and c, or an error that names the path
	// that was missing.
	Fill(data any, c Context) (any, error)
}

type literal struct{ v any }

func (l literal) Fill(any, Context) (any, error) { return l.v, nil }

type reference struct{ p Path }

func (r reference) Fill(data any, c Context) (any, error) {
	v, ok := r.p.Get(data, c)
	if !ok {
		return nil, fmt.Errorf("the path %s is not in the state's data", r.p.Text)
	}
	return v, nil
}

type list []Template

func (l list) Fill(data any, c Context) (any, error) {
	out := make([]any, len(l))
	for i, t := range l {
		v, err := t.Fill(data, c)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

type object []field

type field struct {
	name string
	t    Template
}

func (o object) Fill(data any, c Context) (any, error) {
	out := make(map[string]any, len(o))
	for _, f := range o {
		v, err := f.t.Fill(data, c)
		if err != nil {
			return nil, err
		}
		out[f.name] = v
	}
	return out, nil
}
