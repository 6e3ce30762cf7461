package codex

import (
	"encoding/json"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/wording"
	"github.com/lazyplane/lazyplane/pkg/model"
)

// Reader reads the stream. Lines, events and items it does not know are passed
// over.
func (Driver) Reader(l agent.Launch) agent.Reader { return &reader{model: l.Model} }

type reader struct {
	model    string
	requests int64
}

// line is what of an event is used. Every member may be missing in another
// version.
type line struct {
	Type    string `json:"type"`
	Thread  string `json:"thread_id"`
	Message string `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Item  item `json:"item"`
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Cached int64 `json:"cached_input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
}

type item struct {
	Type     string `json:"type"`
	ItemType string `json:"item_type"` // its name in early versions
	Text     string `json:"text"`
	Message  string `json:"message"`
	Tool     string `json:"tool"`
}

// Line takes one event.
func (r *reader) Line(b []byte) []agent.Event {
	var l line
	if len(b) < 2 || b[0] != '{' || json.Unmarshal(b, &l) != nil {
		return nil
	}
	switch l.Type {
	case "thread.started":
		if l.Thread != "" {
			return []agent.Event{{Session: l.Thread}}
		}
	case "item.completed":
		return r.item(l.Item)
	case "turn.completed":
		in := max(l.Usage.Input-l.Usage.Cached, 0)
		if l.Usage.Input == 0 && l.Usage.Output == 0 {
			return nil
		}
		return []agent.Event{{Usage: []model.Usage{{
			Model: r.model, Requests: max(r.requests, 1), Input: in, Output: l.Usage.Output, CacheRead: l.Usage.Cached,
		}}}}
	case "turn.failed":
		return failed(l.Error.Message)
	case "error":
		return failed(l.Message)
	}
	return nil
}

// item is a completed one. Its own errors are warnings, such as of a model it has
// no description of, and no end.
func (r *reader) item(it item) []agent.Event {
	kind := it.Type
	if kind == "" {
		kind = it.ItemType
	}
	switch kind {
	case "agent_message", "assistant_message":
		r.requests++
		return []agent.Event{{Step: true, Text: strings.TrimSpace(it.Text)}}
	case "command_execution":
		return []agent.Event{{Step: true, Tool: "shell"}}
	case "file_change":
		return []agent.Event{{Step: true, Tool: "apply_patch"}}
	case "mcp_tool_call":
		return []agent.Event{{Step: true, Tool: it.Tool}}
	case "web_search":
		return []agent.Event{{Step: true, Tool: "web_search"}}
	case "reasoning", "todo_list", "collab_tool_call":
		return []agent.Event{{Step: true}}
	}
	return nil
}

// failed is an error by its words. An answer of the service is passed on whole,
// so the message in it is what people read.
func failed(words string) []agent.Event {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	f := wording.Said(words)
	if f == nil {
		return nil
	}
	if json.Unmarshal([]byte(words), &body) == nil && body.Error.Message != "" {
		f.Reason = wording.Short(body.Error.Message)
	}
	return []agent.Event{{Failure: f}}
}

// End has nothing to add.
func (r *reader) End() []agent.Event { return nil }
