package opencode

import (
	"encoding/json"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/wording"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Reader reads the stream. Lines and events it does not know are passed over.
func (Driver) Reader(l agent.Launch) agent.Reader {
	_, name := split(l.Model)
	if name == "" {
		name = DefaultModel
	}
	return &reader{model: name}
}

type reader struct{ model string }

// line is what of an event is used. Every member may be missing in another
// version.
type line struct {
	Type    string `json:"type"`
	Session string `json:"sessionID"`
	Part    struct {
		Text   string `json:"text"`
		Tool   string `json:"tool"`
		Tokens struct {
			Input     int64 `json:"input"`
			Output    int64 `json:"output"`
			Reasoning int64 `json:"reasoning"`
			Cache     struct {
				Read  int64 `json:"read"`
				Write int64 `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
	} `json:"part"`
	Error struct {
		Name string          `json:"name"`
		Data json.RawMessage `json:"data"`
	} `json:"error"`
}

// Line takes one event.
func (r *reader) Line(b []byte) []agent.Event {
	var l line
	if len(b) < 2 || b[0] != '{' || json.Unmarshal(b, &l) != nil {
		return nil
	}
	var e agent.Event
	switch l.Type {
	case "text":
		e = agent.Event{Step: true, Text: strings.TrimSpace(l.Part.Text)}
	case "tool_use":
		e = agent.Event{Step: true, Tool: l.Part.Tool}
	case "step_finish":
		t := l.Part.Tokens
		e.Step = true
		if t.Input+t.Output+t.Reasoning+t.Cache.Read+t.Cache.Write > 0 {
			e.Usage = []model.Usage{{
				Model: r.model, Requests: 1, Input: t.Input, Output: t.Output + t.Reasoning, CacheRead: t.Cache.Read, CacheWrite: t.Cache.Write,
			}}
		}
	case "error":
		e.Failure = failed(l.Error.Name, l.Error.Data)
	}
	e.Session = l.Session
	return []agent.Event{e}
}

// failed sorts an error by its status, its name, and only then by its words.
func failed(name string, data json.RawMessage) *turn.Failure {
	var d struct {
		Message string `json:"message"`
		Status  int    `json:"statusCode"`
		Body    string `json:"responseBody"`
	}
	_ = json.Unmarshal(data, &d)
	words := d.Message
	if words == "" {
		words = name
	}
	if words == "" {
		words = "OpenCode met an error that it did not name"
	}
	f := &turn.Failure{Class: wording.Class(words), Reason: wording.Short(words)}
	switch {
	case d.Status != 0:
		f.Class = wording.OfStatus(d.Status, words+" "+d.Body)
	case name == "ProviderAuthError":
		f.Class = turn.FatalAuth
	case name == "ContextOverflowError", name == "ContentFilterError", name == "MessageOutputLengthError", strings.Contains(name, "ModelNotFound"):
		f.Class = turn.FatalConfig
	}
	return f
}

// End has nothing to add.
func (r *reader) End() []agent.Event { return nil }
