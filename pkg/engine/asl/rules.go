package asl

import (
	"encoding/json"
	"slices"
)

// This file reads the parts of a state that are lists of rules: Choices, Retry
// and Catch.

func (l *loader) choice(s *State, n *node) {
	s.Default = l.text(n, "Default", true)
	choices := n.get("Choices")
	if choices == nil || !choices.array || len(choices.items) == 0 {
		l.bad(n.path+".Choices", "must be a list with at least one rule")
		return
	}
	for _, c := range choices.items {
		s.Rules = append(s.Rules, Rule{Next: l.text(c, "Next", true), test: l.test(c, true)})
	}
}

func (l *loader) test(n *node, top bool) test {
	allowed := append([]string{"And", "Or", "Not", "Variable"}, operators()...)
	if top {
		allowed = append(allowed, "Next", "Comment")
	}
	if !l.object(n, allowed...) {
		return all{}
	}
	var found []member
	for _, m := range n.members {
		if m.name != "Next" && m.name != "Comment" && m.name != "Variable" {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		l.bad(n.path, "needs exactly one of And, Or, Not or a comparison")
		return all{}
	}
	op := found[0]
	variable := n.get("Variable")
	switch op.name {
	case "And", "Or", "Not":
		if variable != nil {
			l.bad(variable.path, "does not belong beside %s", op.name)
		}
		return l.combine(op)
	}
	if variable == nil {
		l.bad(n.path, "needs Variable")
		return all{}
	}
	return l.compare(*l.dataPath(variable), op)
}

func (l *loader) combine(op member) test {
	if op.name == "Not" {
		return not{l.test(op.node, false)}
	}
	if !op.node.array || len(op.node.items) == 0 {
		l.bad(op.node.path, "must be a list with at least one rule")
		return all{}
	}
	var ts []test
	for _, it := range op.node.items {
		ts = append(ts, l.test(it, false))
	}
	if op.name == "Or" {
		return anyOf(ts)
	}
	return all(ts)
}

func (l *loader) compare(variable Path, op member) test {
	c := comparison{variable: variable, op: op.name}
	ok := false
	switch op.name {
	case "StringEquals":
		c.text, ok = op.node.value.(string)
	case "BooleanEquals", "IsPresent":
		c.flag, ok = op.node.value.(bool)
	default:
		if _, is := op.node.value.(json.Number); is {
			c.number, ok = number(op.node.value)
		}
	}
	if !ok {
		l.bad(op.node.path, "has a value of the wrong type")
	}
	return c
}

func (l *loader) rules(n *node, name string) []*node {
	c := n.get(name)
	if c == nil {
		return nil
	}
	if !c.array || len(c.items) == 0 {
		l.bad(c.path, "must be a list with at least one rule")
		return nil
	}
	for i, it := range c.items {
		if !it.object {
			l.bad(it.path, "must be an object")
			return nil
		}
		if slices.Contains(l.errors(it), ErrAll) && i != len(c.items)-1 {
			l.bad(it.path, "%s must come last", ErrAll)
		}
	}
	return c.items
}

// errors reads ErrorEquals without reporting; equals reports.
func (l *loader) errors(n *node) []string {
	var out []string
	if c := n.get("ErrorEquals"); c != nil {
		for _, it := range c.items {
			if s, ok := it.value.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

func (l *loader) equals(n *node) []string {
	out := l.errors(n)
	c := n.get("ErrorEquals")
	if c == nil || len(out) == 0 || len(out) != len(c.items) || slices.Contains(out, "") {
		l.bad(n.path+".ErrorEquals", "must be a list of error names")
	}
	if slices.Contains(out, ErrAll) && len(out) > 1 {
		l.bad(n.path+".ErrorEquals", "%s must stand alone", ErrAll)
	}
	return out
}

func (l *loader) retry(n *node) []Retrier {
	var out []Retrier
	for _, r := range l.rules(n, "Retry") {
		l.object(r, "ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "Comment")
		t := Retrier{
			Errors:   l.equals(r),
			Interval: l.seconds(r, "IntervalSeconds", 1, 1),
			Max:      int(l.integer(r, "MaxAttempts", 0, maxSeconds, defaultAttempts)),
			MaxDelay: l.seconds(r, "MaxDelaySeconds", 1, 0),
			Backoff:  2,
		}
		if b := r.get("BackoffRate"); b != nil {
			f, ok := number(b.value)
			if !ok || f < 1 {
				l.bad(b.path, "must be a number of at least 1")
			}
			t.Backoff = f
		}
		if t.MaxDelay > 0 && t.MaxDelay <= t.Interval {
			l.bad(r.path+".MaxDelaySeconds", "must be greater than IntervalSeconds")
		}
		out = append(out, t)
	}
	return out
}

func (l *loader) catch(n *node) []Catcher {
	var out []Catcher
	for _, c := range l.rules(n, "Catch") {
		l.object(c, "ErrorEquals", "Next", "ResultPath", "Comment")
		out = append(out, Catcher{
			Errors:     l.equals(c),
			Next:       l.text(c, "Next", true),
			ResultPath: l.resultPath(c),
		})
	}
	return out
}
