package asl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The longest time a definition may name, and AWS's default number of attempts.
const (
	maxSeconds      = 99999999
	defaultAttempts = 3
)

// loader turns nodes into a machine and collects every problem on the way.
type loader struct{ problems []error }

func (l *loader) bad(path, format string, args ...any) {
	if path == "" {
		path = "(top)"
	}
	l.problems = append(l.problems, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// object checks that n is an object with no member outside allowed.
func (l *loader) object(n *node, allowed ...string) bool {
	if !n.object {
		l.bad(n.path, "must be an object")
		return false
	}
	for _, m := range n.members {
		if !slices.Contains(allowed, m.name) {
			l.bad(m.node.path, "is outside the subset")
		}
	}
	return true
}

func (l *loader) text(n *node, name string, required bool) string {
	c := n.get(name)
	if c == nil {
		if required {
			l.bad(n.path, "needs %s", name)
		}
		return ""
	}
	s, ok := c.value.(string)
	if !ok || (required && s == "") {
		l.bad(c.path, "must be a text")
	}
	return s
}

func (l *loader) integer(n *node, name string, low, high int64, otherwise int64) int64 {
	c := n.get(name)
	if c == nil {
		return otherwise
	}
	num, ok := c.value.(json.Number)
	if !ok {
		l.bad(c.path, "must be a whole number")
		return otherwise
	}
	v, err := num.Int64()
	if err != nil || v < low || v > high {
		l.bad(c.path, "must be a whole number from %d to %d", low, high)
		return otherwise
	}
	return v
}

func (l *loader) seconds(n *node, name string, low, otherwise int64) time.Duration {
	return time.Duration(l.integer(n, name, low, maxSeconds, otherwise)) * time.Second
}

func (l *loader) machine(n *node) *Machine {
	m := &Machine{States: map[string]*State{}}
	if !l.object(n, "Comment", "StartAt", "TimeoutSeconds", "States") {
		return m
	}
	m.Comment = l.text(n, "Comment", false)
	m.StartAt = l.text(n, "StartAt", true)
	m.Timeout = l.seconds(n, "TimeoutSeconds", 1, 0)
	states := n.get("States")
	if states == nil || !states.object || len(states.members) == 0 {
		l.bad("States", "must be an object with at least one state")
		return m
	}
	for _, s := range states.members {
		if s.name == "" || len(s.name) > 80 {
			l.bad(s.node.path, "a state's name has 1 to 80 characters")
		}
		m.Order = append(m.Order, s.name)
		m.States[s.name] = l.state(s.name, s.node)
	}
	return m
}

// fields lists what each type of state may hold besides Type and Comment.
func fields(t Type) ([]string, bool) {
	switch t {
	case Task:
		return []string{
			"Next", "End", "Resource", "Parameters", "ResultSelector", "ResultPath",
			"Retry", "Catch", "TimeoutSeconds", "HeartbeatSeconds",
		}, true
	case Choice:
		return []string{"Choices", "Default"}, true
	case Wait:
		return []string{"Next", "End", "Seconds", "SecondsPath", "TimestampPath"}, true
	case Pass:
		return []string{"Next", "End", "Result", "Parameters", "ResultPath"}, true
	case Succeed:
		return nil, true
	case Fail:
		return []string{"Error", "Cause"}, true
	}
	return nil, false
}

func (l *loader) state(name string, n *node) *State {
	s := &State{Name: name}
	if !n.object {
		l.bad(n.path, "must be an object")
		return s
	}
	s.Type = Type(l.text(n, "Type", true))
	allowed, ok := fields(s.Type)
	if !ok {
		l.bad(n.path+".Type", "%q is outside the subset", s.Type)
		return s
	}
	l.object(n, append(allowed, "Type", "Comment")...)
	s.Comment = l.text(n, "Comment", false)
	if slices.Contains(allowed, "Next") {
		l.flow(s, n)
	}
	switch s.Type {
	case Task:
		l.task(s, n)
	case Choice:
		l.choice(s, n)
	case Wait:
		l.wait(s, n)
	case Pass:
		l.pass(s, n)
	case Succeed:
	case Fail:
		s.Error = l.text(n, "Error", true)
		s.Cause = l.text(n, "Cause", false)
	}
	return s
}

func (l *loader) flow(s *State, n *node) {
	s.Next = l.text(n, "Next", false)
	if end := n.get("End"); end != nil {
		if end.value != true {
			l.bad(end.path, "must be true where it appears")
		}
		s.End = true
	}
	if s.End == (s.Next != "") {
		l.bad(n.path, "needs either Next or End")
	}
}

func (l *loader) task(s *State, n *node) {
	switch r := l.text(n, "Resource", true); r {
	case Invoke:
	case InvokeToken:
		s.Token = true
	default:
		l.bad(n.path+".Resource", "%q is outside the subset", r)
	}
	s.Timeout = l.seconds(n, "TimeoutSeconds", 1, 0)
	s.Heartbeat = l.seconds(n, "HeartbeatSeconds", 1, 0)
	switch {
	case s.Token && s.Timeout == 0:
		l.bad(n.path, "needs TimeoutSeconds: an unanswered token would wait for ever")
	case s.Heartbeat > 0 && !s.Token:
		l.bad(n.path+".HeartbeatSeconds", "only a state that waits for a token has a heartbeat")
	case s.Heartbeat > 0 && s.Heartbeat >= s.Timeout:
		l.bad(n.path+".HeartbeatSeconds", "must be less than TimeoutSeconds")
	}
	l.payload(s, n)
	if sel := n.get("ResultSelector"); sel != nil {
		s.Selector = l.template(sel)
		if refers(s.Selector, ctxToken) {
			l.bad(sel.path, "must not carry %s", ctxToken)
		}
	}
	s.ResultPath = l.resultPath(n)
	s.Retry = l.retry(n)
	s.Catch = l.catch(n)
}

// payload checks what WF-21 says about the parameters of every task: the
// function, and a payload that names its step.
func (l *loader) payload(s *State, n *node) {
	p := n.get("Parameters")
	if p == nil {
		l.bad(n.path, "needs Parameters")
		return
	}
	if !l.object(p, "FunctionName", "Payload") {
		return
	}
	l.text(p, "FunctionName", true)
	body := p.get("Payload")
	if body == nil || !body.object {
		l.bad(p.path, "needs a Payload object")
		return
	}
	s.Step = l.text(body, "step", true)
	s.Parameters = l.template(p)
	token := refers(s.Parameters, ctxToken)
	switch {
	case s.Token && !token:
		l.bad(body.path, "must carry %s, or nobody can answer it", ctxToken)
	case !s.Token && token:
		l.bad(body.path, "carries %s, but the state does not wait for a token", ctxToken)
	}
}

func (l *loader) pass(s *State, n *node) {
	if r := n.get("Result"); r != nil {
		s.Result = literal{r.plain()}
	}
	if p := n.get("Parameters"); p != nil {
		s.Parameters = l.template(p)
		if refers(s.Parameters, ctxToken) {
			l.bad(p.path, "must not carry %s", ctxToken)
		}
	}
	if s.Result != nil && s.Parameters != nil {
		l.bad(n.path, "takes Result or Parameters, not both")
	}
	s.ResultPath = l.resultPath(n)
}

func (l *loader) wait(s *State, n *node) {
	given := 0
	if n.get("Seconds") != nil {
		given++
		s.Wait = l.seconds(n, "Seconds", 0, 0)
	}
	for _, f := range []struct {
		name string
		to   **Path
	}{{"SecondsPath", &s.SecondsPath}, {"TimestampPath", &s.TimestampPath}} {
		if c := n.get(f.name); c != nil {
			given++
			*f.to = l.dataPath(c)
		}
	}
	if given != 1 {
		l.bad(n.path, "needs exactly one of Seconds, SecondsPath and TimestampPath")
	}
}

func (l *loader) path(n *node) Path {
	s, ok := n.value.(string)
	if !ok {
		l.bad(n.path, "must be a reference path")
		return Path{}
	}
	p, err := parsePath(s)
	if err != nil {
		l.bad(n.path, "%s", err)
	}
	return p
}

func (l *loader) dataPath(n *node) *Path {
	p := l.path(n)
	if p.Context {
		l.bad(n.path, "must not refer to the context object")
	}
	return &p
}

func (l *loader) resultPath(n *node) Path {
	c := n.get("ResultPath")
	switch {
	case c == nil:
		return Path{Text: "$"}
	case c.value == nil && !c.object && !c.array:
		return Path{None: true}
	default:
		return *l.dataPath(c)
	}
}

func (l *loader) template(n *node) Template {
	switch {
	case n.object:
		out := make(object, 0, len(n.members))
		seen := map[string]bool{}
		for _, m := range n.members {
			name, ref := strings.CutSuffix(m.name, ".$")
			if seen[name] {
				l.bad(m.node.path, "appears twice")
			}
			seen[name] = true
			if ref {
				out = append(out, field{name, reference{l.path(m.node)}})
			} else {
				out = append(out, field{name, l.template(m.node)})
			}
		}
		return out
	case n.array:
		out := make(list, len(n.items))
		for i, it := range n.items {
			out[i] = l.template(it)
		}
		return out
	default:
		return literal{n.value}
	}
}

func refers(t Template, text string) bool {
	switch t := t.(type) {
	case reference:
		return t.p.Text == text
	case list:
		return slices.ContainsFunc(t, func(c Template) bool { return refers(c, text) })
	case object:
		return slices.ContainsFunc(t, func(f field) bool { return refers(f.t, text) })
	}
	return false
}
