package modelfake

import (
	"fmt"
	"strings"
)

// chat is the Chat Completions format.
type chat struct {
	*stream
	calls int
}

func (c *chat) chunk(delta obj, reason any) obj {
	return obj{
		"id": "chatcmpl" + c.requestID()[3:], "object": "chat.completion.chunk", "created": now(), "model": c.r.Model,
		"choices": []any{obj{"index": 0, "delta": delta, "finish_reason": reason}},
	}
}

func (c *chat) begin(Tokens) { c.event("", c.chunk(obj{"role": "assistant", "content": ""}, nil)) }

func (c *chat) think(text string) { c.event("", c.chunk(obj{"reasoning_content": text}, nil)) }

func (c *chat) say(text string) {
	for _, p := range pieces(text) {
		c.event("", c.chunk(obj{"content": p}, nil))
	}
}

func (c *chat) tool(p Part) obj {
	t, args := c.r.resolve(p)
	o := obj{"index": c.calls, "id": c.callID("call"), "type": "function", "function": obj{"name": t.Name, "arguments": string(args)}}
	c.calls++
	return o
}

func (c *chat) call(p Part) { c.event("", c.chunk(obj{"tool_calls": []any{c.tool(p)}}, nil)) }

func (c *chat) ping() { c.comment() }

func (c *chat) overload() {
	c.event("", obj{"error": obj{"message": "The server is overloaded. Please try again later.", "type": "server_error", "code": "server_is_overloaded"}})
}

func (c *chat) reason(refused bool) string {
	switch {
	case refused:
		return "content_filter"
	case c.calls > 0:
		return "tool_calls"
	}
	return "stop"
}

func (c *chat) usage(t Tokens) obj {
	return obj{
		"prompt_tokens": t.Input + t.Cached, "completion_tokens": t.Output, "total_tokens": t.Input + t.Cached + t.Output,
		"prompt_tokens_details": obj{"cached_tokens": t.Cached},
	}
}

func (c *chat) finish(refused bool, t Tokens) {
	c.event("", c.chunk(obj{}, c.reason(refused)))
	last := c.chunk(obj{}, nil)
	last["choices"], last["usage"] = []any{}, c.usage(t)
	c.event("", last)
	fmt.Fprint(c.to, "data: [DONE]\n\n")
	_ = c.rc.Flush()
}

func (c *chat) whole(parts []Part, refused bool, t Tokens) any {
	msg := obj{"role": "assistant", "content": ""}
	var text strings.Builder
	var tools []any
	for _, p := range parts {
		switch p.Kind {
		case Call:
			tools = append(tools, c.tool(p))
		case Say:
			text.WriteString(p.Text)
		default:
		}
	}
	msg["content"] = text.String()
	if tools != nil {
		msg["tool_calls"] = tools
	}
	return obj{
		"id": "chatcmpl" + c.requestID()[3:], "object": "chat.completion", "created": now(), "model": c.r.Model,
		"choices": []any{obj{"index": 0, "message": msg, "finish_reason": c.reason(refused)}}, "usage": c.usage(t),
	}
}

func (c *chat) failure(a Answer) any { return openAIFailure(a, c.r.Model) }
