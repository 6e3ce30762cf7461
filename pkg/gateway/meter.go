package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// meter reads an answer as it passes. It keeps one line of a stream, or a whole
// answer that is none, and no more than lineMost of either. Of a longer event of a
// stream its name is known, which is on a line of its own before it.
type meter struct {
	wire   model.Wire
	sse    bool
	line   []byte
	over   bool   // the line is longer than is kept
	name   string // of the event that is being read
	usage  model.Usage
	done   bool // the event that ends an answer was seen
	failed *said
}

// said is an error in a service's words.
type said struct {
	kind, code, message string
	resets              float64 // seconds until a spent window begins anew
}

// The event that ends an answer of Responses repeats all of it.
const lineMost = 4 << 20

func newMeter(w model.Wire, contentType string) *meter {
	return &meter{wire: w, sse: strings.HasPrefix(contentType, "text/event-stream")}
}

func (m *meter) take(b []byte) {
	for len(b) > 0 {
		i := -1
		if m.sse {
			i = bytes.IndexByte(b, '\n')
		}
		part := b
		if i >= 0 {
			part, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if m.over = m.over || len(m.line)+len(part) > lineMost; !m.over {
			m.line = append(m.line, part...)
		}
		if i >= 0 {
			m.event()
		}
	}
}

// end takes what is left: the last line, or an answer that is no stream.
func (m *meter) end() { m.event() }

func (m *meter) event() {
	line, over := m.line, m.over
	m.line, m.over = m.line[:0], false
	if over {
		m.done = m.done || m.sse && ends(m.name)
		return
	}
	if m.sse {
		if named, ok := bytes.CutPrefix(line, []byte("event:")); ok {
			m.name = string(bytes.TrimSpace(named))
			return
		}
		data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r"), []byte("data:"))
		if !ok {
			return
		}
		if line = bytes.TrimSpace(data); string(line) == "[DONE]" {
			m.done = true
			return
		}
	}
	var e event
	if len(line) == 0 || json.Unmarshal(line, &e) != nil {
		return
	}
	m.count(e)
}

// event is the part of the three wire formats that says what was spent and how a
// call ended. Anthropic: message_start, message_delta, message_stop, error.
// Responses: response.completed, .incomplete, .failed, error. Chat: chunks.
type event struct {
	Type    string          `json:"type"`
	Model   string          `json:"model"`
	Usage   *counts         `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Code    json.RawMessage `json:"code"`
	Message json.RawMessage `json:"message"` // an object of Anthropic, a text of an OpenAI error
	Choices []struct {
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Response *struct {
		Model string          `json:"model"`
		Usage *counts         `json:"usage"`
		Error json.RawMessage `json:"error"`
	} `json:"response"`
}

// counts are tokens in the names of all three formats.
type counts struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	InputMore  struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	PromptMore struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (m *meter) count(e event) {
	switch {
	case m.wire == model.Anthropic:
		m.anthropic(e)
	case e.Response != nil:
		m.called(e.Response.Model)
		if ends(e.Type) {
			m.done = true
			m.openai(e.Response.Usage)
		}
		if e.Type == "response.failed" {
			m.fail(e.Response.Error, nil, nil)
		}
	case e.Type == "error" || len(e.Error) > 0 && string(e.Error) != "null":
		m.done = true
		m.fail(e.Error, e.Code, e.Message)
	default: // a chunk, or an answer that is no stream
		m.called(e.Model)
		m.openai(e.Usage)
	}
}

// ends tells the events after which an answer of Responses is complete.
func ends(event string) bool {
	switch event {
	case "response.completed", "response.incomplete", "response.done", "response.failed":
		return true
	}
	return false
}

func (m *meter) anthropic(e event) {
	var start struct {
		Model string  `json:"model"`
		Usage *counts `json:"usage"`
	}
	switch e.Type {
	case "message_start":
		if json.Unmarshal(e.Message, &start) == nil {
			m.called(start.Model)
			m.larger(start.Usage)
		}
	case "message_delta", "message":
		m.called(e.Model)
		m.larger(e.Usage)
	case "message_stop":
		m.done = true
	case "error":
		m.done = true
		m.fail(e.Error, nil, nil)
	}
}

// called keeps a printable, short name: it becomes part of records.
func (m *meter) called(s string) {
	if s != "" {
		m.usage.Model, _ = text.Cut(text.Line(s), 100)
	}
}

// larger keeps the larger count: the service's counts grow within one answer.
func (m *meter) larger(c *counts) {
	if c == nil {
		return
	}
	u := &m.usage
	u.Input, u.Output = max(u.Input, c.Input), max(u.Output, c.Output)
	u.CacheRead, u.CacheWrite = max(u.CacheRead, c.CacheRead), max(u.CacheWrite, c.CacheWrite)
}

// openai takes counts whose input contains what was read from a cache.
func (m *meter) openai(c *counts) {
	if c == nil {
		return
	}
	cached := max(c.InputMore.Cached, c.PromptMore.Cached, 0)
	in := max(c.Input, c.Prompt, 0)
	m.usage.Input, m.usage.CacheRead = max(in-cached, 0), min(cached, in)
	m.usage.Output = max(c.Output, c.Completion, 0)
}

func (m *meter) fail(e, code, message json.RawMessage) {
	s := wordsOf(e)
	if s == (said{}) {
		s = said{code: str(code), message: str(message)}
	}
	if s.kind == "" {
		s.kind = s.code
	}
	if s.kind == "" {
		s.kind = "error"
	}
	m.failed = &s
}

// errorOf reads the body of a refusal.
func errorOf(b []byte) said {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(b, &e) != nil {
		return said{}
	}
	s := wordsOf(e.Error)
	if s.message == "" {
		s.message = str(e.Message)
	}
	return s
}

func wordsOf(b json.RawMessage) said {
	var e struct {
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
		Resets  json.RawMessage `json:"resets_in_seconds"` // of a plan's window, for Codex
	}
	if json.Unmarshal(b, &e) != nil {
		return said{message: str(b)}
	}
	s := said{kind: str(e.Type), code: str(e.Code), message: str(e.Message)}
	if json.Unmarshal(e.Resets, &s.resets) != nil {
		s.resets = 0
	}
	return s
}

func str(b json.RawMessage) string {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return ""
	}
	return text.Line(s)
}

// classify sorts an error of a service (FC-001). What a service will always
// refuse is a matter of configuration, what it cannot do now is overload.
func classify(status int, e said) *turn.Failure {
	words := []string{e.kind, e.code}
	has := func(any ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(any, w) })
	}
	f := &turn.Failure{Class: turn.Unknown}
	switch {
	case has("insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active"), status == http.StatusPaymentRequired,
		has("authentication_error", "permission_error", "invalid_api_key", "account_deactivated"),
		status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Class = turn.FatalAuth
	case has("overloaded_error", "rate_limit_error", "rate_limit_exceeded", "api_error", "server_error", "server_is_overloaded", "slow_down", "timeout_error", "service_unavailable", "tokens", "requests"),
		status == http.StatusTooManyRequests, status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict:
		f.Class = turn.Overload
	case status >= 400, has("invalid_request_error", "not_found_error", "request_too_large", "model_not_found", "invalid_prompt", "context_length_exceeded"):
		f.Class = turn.FatalConfig
	}
	return f
}
