package modelfake

import (
	"encoding/json"
	"net/http"
)

// messages is Anthropic's format.
type messages struct {
	*stream
	index int
	tools bool
}

func (m *messages) usage(t Tokens) obj {
	return obj{"input_tokens": t.Input, "output_tokens": t.Output, "cache_read_input_tokens": t.Cached, "cache_creation_input_tokens": 0}
}

func (m *messages) message() obj {
	return obj{"id": "msg" + m.requestID()[3:], "type": "message", "role": "assistant", "model": m.r.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil}
}

func (m *messages) begin(t Tokens) {
	msg := m.message()
	t.Output = 1
	msg["usage"] = m.usage(t)
	m.event("message_start", obj{"type": "message_start", "message": msg})
}

func (m *messages) block(start obj, deltas ...obj) {
	m.event("content_block_start", obj{"type": "content_block_start", "index": m.index, "content_block": start})
	for _, d := range deltas {
		m.event("content_block_delta", obj{"type": "content_block_delta", "index": m.index, "delta": d})
	}
	m.event("content_block_stop", obj{"type": "content_block_stop", "index": m.index})
	m.index++
}

func (m *messages) think(text string) {
	m.block(obj{"type": "thinking", "thinking": "", "signature": ""},
		obj{"type": "thinking_delta", "thinking": text}, obj{"type": "signature_delta", "signature": "c2lnbmF0dXJl"})
}

func (m *messages) say(text string) {
	var d []obj
	for _, p := range pieces(text) {
		d = append(d, obj{"type": "text_delta", "text": p})
	}
	m.block(obj{"type": "text", "text": ""}, d...)
}

func (m *messages) call(p Part) {
	m.tools = true
	t, args := m.r.resolve(p)
	m.block(obj{"type": "tool_use", "id": m.callID("toolu"), "name": t.Name, "input": obj{}},
		obj{"type": "input_json_delta", "partial_json": string(args)})
}

func (m *messages) ping() { m.event("ping", obj{"type": "ping"}) }

func (m *messages) overload() {
	m.event("error", obj{"type": "error", "error": obj{"type": "overloaded_error", "message": "Overloaded"}, "request_id": m.requestID()})
}

func (m *messages) reason(refused bool) string {
	switch {
	case refused:
		return "refusal"
	case m.tools:
		return "tool_use"
	}
	return "end_turn"
}

func (m *messages) finish(refused bool, t Tokens) {
	m.event("message_delta", obj{"type": "message_delta", "delta": obj{"stop_reason": m.reason(refused), "stop_sequence": nil}, "usage": m.usage(t)})
	m.event("message_stop", obj{"type": "message_stop"})
}

func (m *messages) whole(parts []Part, refused bool, t Tokens) any {
	msg := m.message()
	var content []any
	for _, p := range parts {
		switch p.Kind {
		case Think:
			content = append(content, obj{"type": "thinking", "thinking": p.Text, "signature": "c2lnbmF0dXJl"})
		case Call:
			m.tools = true
			tool, args := m.r.resolve(p)
			content = append(content, obj{"type": "tool_use", "id": m.callID("toolu"), "name": tool.Name, "input": json.RawMessage(args)})
		default:
			content = append(content, obj{"type": "text", "text": p.Text})
		}
	}
	msg["content"], msg["stop_reason"], msg["usage"] = content, m.reason(refused), m.usage(t)
	return msg
}

func (m *messages) failure(a Answer) any {
	kind, text := "api_error", "Internal server error"
	switch a.Status {
	case http.StatusBadRequest:
		kind, text = "invalid_request_error", "the request is not valid"
	case http.StatusUnauthorized:
		kind, text = "authentication_error", "invalid x-api-key"
	case http.StatusForbidden:
		kind, text = "permission_error", "this key may not do that"
	case http.StatusNotFound:
		kind, text = "not_found_error", "model: "+m.r.Model
	case http.StatusTooManyRequests:
		kind, text = "rate_limit_error", "This request would exceed your rate limit"
	case 529:
		kind, text = "overloaded_error", "Overloaded"
	}
	if a.Text != "" {
		text = a.Text
	}
	return obj{"type": "error", "error": obj{"type": kind, "message": text}, "request_id": m.requestID()}
}
