// Package modelfake is a model endpoint that follows a script. It speaks
// Anthropic Messages, OpenAI Responses and Chat Completions, so that agent CLIs
// run against it as they are, and it keeps what it was sent. A script is text,
// one step a line; see Parse.
package modelfake

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is what one part of an answer does.
type Kind string

// The parts. Those from Overload on end their answer.
const (
	Think     Kind = "think"     // reasoning
	Say       Kind = "say"       // text
	Call      Kind = "call"      // a tool call
	Wait      Kind = "wait"      // hold the stream until a gate is released
	Overload  Kind = "overload"  // the service's own mid-stream event
	Cut       Kind = "cut"       // the connection ends
	KeepAlive Kind = "keepalive" // signs of life and nothing else, until the caller goes
	Refuse    Kind = "refuse"    // the model declines
)

// Part is one part of an answer.
type Part struct {
	Kind Kind
	Text string          // what is said or thought, the tool of a call, the gate of a wait
	Args json.RawMessage // of a call
}

// Answer is what one request for a generation gets.
type Answer struct {
	Line   int      // in the script
	Expect []string // texts the request has to contain
	Parts  []Part
	Tokens Tokens

	Status int // not 0: a refusal over HTTP
	After  string
	Text   string
}

// Tokens is what an answer says it cost.
type Tokens struct{ Input, Output, Cached int64 }

// Script is the answers in the order in which they are given.
type Script []Answer

// Parse reads a script. Empty lines and those that begin with # are left out;
// indentation is for the reader.
//
//	expect TEXT         the next request has to contain TEXT
//	reply               begins an answer, whose parts follow
//	  think TEXT
//	  say TEXT          a text in double quotes may hold \n and the like
//	  long N            N bytes of text
//	  call TOOL {JSON}  TOOL as it is offered, or lazy_x, or shell with {"command": …}
//	  tokens IN OUT [CACHED]
//	  wait GATE
//	  overload | cut | keepalive | refuse
//	fail STATUS [after SECONDS] [times N] [TEXT]
func Parse(name string, src []byte) (Script, error) {
	var s Script
	var expect []string
	open := false
	sc := bufio.NewScanner(bytes.NewReader(src))
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		bad := func(format string, args ...any) error {
			return fmt.Errorf("%s:%d: %s", name, n, fmt.Sprintf(format, args...))
		}
		verb, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch verb {
		case "expect":
			expect, open = append(expect, text(rest)), false
			continue
		case "reply":
			s = append(s, Answer{Line: n, Expect: expect, Tokens: Tokens{100, 10, 0}})
			expect, open = nil, true
			continue
		case "fail":
			a, times, err := failure(rest)
			if err != nil {
				return nil, bad("%v", err)
			}
			a.Line, a.Expect = n, expect
			s = append(s, slices.Repeat([]Answer{a}, times)...)
			expect, open = nil, false
			continue
		}
		if !open {
			return nil, bad("%q belongs into a reply", verb)
		}
		a := &s[len(s)-1]
		if len(a.Parts) > 0 && ends(a.Parts[len(a.Parts)-1].Kind) {
			return nil, bad("the reply has ended with %s", a.Parts[len(a.Parts)-1].Kind)
		}
		if verb == "tokens" {
			t, err := tokens(rest)
			if err != nil {
				return nil, bad("%v", err)
			}
			a.Tokens = t
			continue
		}
		p, err := part(verb, rest)
		if err != nil {
			return nil, bad("%v", err)
		}
		a.Parts = append(a.Parts, p)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	if len(expect) > 0 {
		return nil, fmt.Errorf("%s: an expect without an answer after it", name)
	}
	return s, nil
}

// Must is a script that is known to be right, as in a test.
func Must(src string) Script {
	s, err := Parse("script", []byte(src))
	if err != nil {
		panic(err)
	}
	return s
}

func ends(k Kind) bool {
	return k == Overload || k == Cut || k == KeepAlive || k == Refuse
}

// text takes the quotes off a quoted text.
func text(s string) string {
	if strings.HasPrefix(s, `"`) {
		if u, err := strconv.Unquote(s); err == nil {
			return u
		}
	}
	return s
}

func part(verb, rest string) (Part, error) {
	switch k := Kind(verb); k {
	case Think, Say, Wait:
		if rest == "" {
			return Part{}, fmt.Errorf("%s needs a text", verb)
		}
		return Part{Kind: k, Text: text(rest)}, nil
	case Call:
		tool, args, _ := strings.Cut(rest, " ")
		if args = strings.TrimSpace(args); args == "" {
			args = "{}"
		}
		if tool == "" || !json.Valid([]byte(args)) || args[0] != '{' {
			return Part{}, fmt.Errorf("call needs a tool and one JSON object")
		}
		return Part{Kind: Call, Text: tool, Args: json.RawMessage(args)}, nil
	case Overload, Cut, KeepAlive, Refuse:
		return Part{Kind: k}, nil
	}
	if verb == "long" {
		n, err := strconv.Atoi(rest)
		if err != nil || n < 1 || n > bodyMost {
			return Part{}, fmt.Errorf("long needs a number of bytes")
		}
		return Part{Kind: Say, Text: strings.Repeat("All work and no play. ", n/22+1)[:n]}, nil
	}
	return Part{}, fmt.Errorf("%q is no step", verb)
}

func failure(rest string) (a Answer, times int, err error) {
	words := strings.Fields(rest)
	if len(words) == 0 {
		return a, 0, fmt.Errorf("fail needs a status")
	}
	if a.Status, err = strconv.Atoi(words[0]); err != nil || a.Status < 400 || a.Status > 599 {
		return a, 0, fmt.Errorf("%q is no status of a failure", words[0])
	}
	times = 1
	words = words[1:]
	for len(words) >= 2 && (words[0] == "after" || words[0] == "times") {
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 0 || n > 10_000 {
			return a, 0, fmt.Errorf("%s needs a number of at most 10000", words[0])
		}
		if words[0] == "after" {
			a.After = words[1]
		} else {
			times = n
		}
		words = words[2:]
	}
	a.Text = text(strings.Join(words, " "))
	return a, times, nil
}

func tokens(rest string) (t Tokens, err error) {
	words := strings.Fields(rest)
	if len(words) < 2 || len(words) > 3 {
		return t, fmt.Errorf("tokens needs two or three numbers")
	}
	for i, to := range []*int64{&t.Input, &t.Output, &t.Cached}[:len(words)] {
		if *to, err = strconv.ParseInt(words[i], 10, 64); err != nil {
			return t, fmt.Errorf("tokens: %w", err)
		}
	}
	return t, nil
}
