package claude

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/wording"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Reader reads the stream. Lines and events it does not know are passed over.
func (Driver) Reader(agent.Launch) agent.Reader { return &reader{requests: map[string]int64{}} }

type reader struct {
	requests map[string]int64 // answers of each model in this run
	last     string           // id of the newest answer
	result   bool             // the closing event was read
	named    *turn.Failure    // the last failure of a message, whose words the closing event repeats
}

// line is what of an event is used. Every member may be missing in another
// version.
type line struct {
	Type    string          `json:"type"`
	Subtype string          `json:"subtype"`
	Session string          `json:"session_id"`
	Parent  string          `json:"parent_tool_use_id"`
	Message json.RawMessage `json:"message"`
	Error   json.RawMessage `json:"error"`

	Synthetic bool             `json:"isSynthetic"`
	Status    int              `json:"error_status"`
	APIStatus int              `json:"api_error_status"`
	IsError   bool             `json:"is_error"`
	Result    string           `json:"result"`
	Errors    []string         `json:"errors"`
	Models    map[string]spent `json:"modelUsage"`
	Limit     limit            `json:"rate_limit_info"`
}

type spent struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cacheReadInputTokens"`
	CacheWrite int64 `json:"cacheCreationInputTokens"`
}

type limit struct {
	Status string `json:"status"`
	Kind   string `json:"rateLimitType"`
}

type message struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
}

type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
	Name string `json:"name"`
}

// synthetic is the model of messages that the CLI makes itself.
const synthetic = "<synthetic>"

// Line takes one event.
func (r *reader) Line(b []byte) []agent.Event {
	var l line
	if !probably(b) || json.Unmarshal(b, &l) != nil {
		return nil
	}
	var out []agent.Event
	switch l.Type {
	case "system":
		if l.Subtype == "api_retry" {
			out = append(out, agent.Event{Failure: retried(l)})
		}
	case "assistant":
		out = r.assistant(l)
	case "user":
		if hasResult(l.Message) {
			out = append(out, agent.Event{Step: true})
		}
	case "rate_limit_event":
		if l.Limit.Status == "rejected" {
			out = append(out, agent.Event{Failure: &turn.Failure{
				Class: turn.Overload, Reason: wording.Short("the usage window is spent (" + l.Limit.Kind + ")"),
			}})
		}
	case "result":
		out = r.closing(l)
	}
	if l.Session != "" {
		out = append(out, agent.Event{Session: l.Session})
	}
	return out
}

// probably is whether a line can be an event; other output is not parsed.
func probably(b []byte) bool { return len(b) > 1 && b[0] == '{' }

func retried(l line) *turn.Failure {
	said := wording.Short(name(l.Error))
	f := &turn.Failure{Class: wording.OfStatus(l.Status, said), Reason: said}
	if l.Status == 0 {
		f.Class = turn.Network // it got no answer at all
		f.Reason = "the connection to the model was lost"
	} else {
		f.Reason = fmt.Sprintf("the model answered %d (%s)", l.Status, said)
	}
	return f
}

// name is an error's name, which is a text or an object with a message.
func name(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	if json.Unmarshal(raw, &o) == nil && o.Message != "" {
		return o.Message
	}
	return o.Type
}

func (r *reader) assistant(l line) []agent.Event {
	var m message
	if json.Unmarshal(l.Message, &m) != nil {
		return nil
	}
	var blocks []block
	_ = json.Unmarshal(m.Content, &blocks)
	said := ""
	var out []agent.Event
	for _, c := range blocks {
		switch c.Type {
		case "text":
			said = strings.TrimSpace(c.Text)
			if m.Model != synthetic {
				out = append(out, agent.Event{Step: true, Text: own(l, said)})
			}
		case "tool_use":
			out = append(out, agent.Event{Step: true, Tool: c.Name})
		}
	}
	if m.Model == synthetic {
		if kind := name(l.Error); kind != "" || strings.HasPrefix(said, "API Error") {
			f := wording.Said(said)
			if f != nil {
				f.Class = classOf(kind, f.Class)
				r.named = f
				out = append(out, agent.Event{Failure: f})
			}
		}
		return out
	}
	if m.ID != r.last {
		r.last = m.ID
		r.requests[m.Model]++
	}
	return out
}

// own is a text of the agent itself, not of one it started.
func own(l line, s string) string {
	if l.Parent != "" {
		return ""
	}
	return s
}

// classOf sorts the names that the CLI has for failures of the model.
func classOf(kind string, otherwise turn.Class) turn.Class {
	switch kind {
	case "authentication_failed", "billing_error", "oauth_org_not_allowed":
		return turn.FatalAuth
	case "rate_limit", "overloaded", "server_error":
		if otherwise == turn.FatalAuth {
			return otherwise // a spent quota comes under the same name
		}
		return turn.Overload
	case "invalid_request", "model_not_found", "max_output_tokens":
		return turn.FatalConfig
	}
	return otherwise
}

// hasResult is whether a message carries the result of a tool: those are steps,
// and other messages of the user are the CLI talking to itself.
func hasResult(raw json.RawMessage) bool {
	var m message
	if json.Unmarshal(raw, &m) != nil {
		return false
	}
	var blocks []block
	if json.Unmarshal(m.Content, &blocks) != nil {
		return false
	}
	return slices.ContainsFunc(blocks, func(b block) bool { return b.Type == "tool_result" })
}

func (r *reader) closing(l line) []agent.Event {
	r.result = true
	var out []agent.Event
	for _, m := range slices.Sorted(maps.Keys(l.Models)) {
		u := l.Models[m]
		out = append(out, agent.Event{Usage: []model.Usage{{
			Model: m, Requests: max(r.requests[m], 1), Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		}}})
	}
	if !l.IsError {
		if s := strings.TrimSpace(l.Result); s != "" {
			out = append(out, agent.Event{Text: s})
		}
		return out
	}
	said := l.Result
	if said == "" {
		said = strings.Join(l.Errors, "; ")
	}
	if said == "" {
		said = l.Subtype
	}
	if f := wording.Said(said); f != nil {
		if l.APIStatus != 0 {
			f.Class = wording.OfStatus(l.APIStatus, said)
		}
		if f.Class == turn.Unknown && r.named != nil && r.named.Reason == f.Reason {
			f.Class = r.named.Class
		}
		out = append(out, agent.Event{Failure: f})
	}
	return out
}

// End has nothing to add: what a stream that was cut off did not say is unknown.
func (r *reader) End() []agent.Event { return nil }
