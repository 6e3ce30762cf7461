package asl

import (
	"encoding/json"
	"fmt"
)

// Rule is one member of Choices.
type Rule struct {
	Next string
	test test
}

// Holds reports whether the rule applies to data. A variable that is missing is
// an error unless the test is IsPresent, as on AWS.
func (r Rule) Holds(data any) (bool, error) { return r.test.holds(data) }

type test interface {
	holds(data any) (bool, error)
}

type comparison struct {
	variable Path
	op       string
	text     string
	number   float64
	flag     bool
}

// operators lists the comparisons of the subset.
func operators() []string {
	return []string{
		"StringEquals", "NumericEquals", "NumericLessThan", "NumericGreaterThan",
		"NumericGreaterThanEquals", "BooleanEquals", "IsPresent",
	}
}

func (c comparison) holds(data any) (bool, error) {
	v, ok := c.variable.Get(data, Context{})
	if c.op == "IsPresent" {
		return ok == c.flag, nil
	}
	if !ok {
		return false, fmt.Errorf("the choice's variable %s is not in the state's data", c.variable.Text)
	}
	switch c.op {
	case "StringEquals":
		s, is := v.(string)
		return is && s == c.text, nil
	case "BooleanEquals":
		b, is := v.(bool)
		return is && b == c.flag, nil
	}
	n, is := number(v)
	if !is {
		return false, nil
	}
	switch c.op {
	case "NumericEquals":
		return n == c.number, nil
	case "NumericLessThan":
		return n < c.number, nil
	case "NumericGreaterThan":
		return n > c.number, nil
	default: // NumericGreaterThanEquals
		return n >= c.number, nil
	}
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case float64:
		return n, true
	case int:
		return float64(n), true
	}
	return 0, false
}

type all []test

func (a all) holds(data any) (bool, error) {
	for _, t := range a {
		if ok, err := t.holds(data); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

type anyOf []test

func (a anyOf) holds(data any) (bool, error) {
	for _, t := range a {
		if ok, err := t.holds(data); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

type not struct{ t test }

func (n not) holds(data any) (bool, error) {
	ok, err := n.t.holds(data)
	return !ok && err == nil, err
}
