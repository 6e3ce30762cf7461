package modelfake

import (
	"fmt"
	"maps"
	"net/http"
)

// responses is OpenAI's Responses format.
type responses struct {
	*stream
	seq   int
	items []any
}

func (o *responses) send(kind string, more obj) {
	more["type"], more["sequence_number"] = kind, o.seq
	o.seq++
	o.event(kind, more)
}

func (o *responses) response(status string, t *Tokens) obj {
	r := obj{
		"id": "resp" + o.requestID()[3:], "object": "response", "created_at": now(), "status": status, "model": o.r.Model,
		"output": o.items, "error": nil, "incomplete_details": nil, "usage": nil, "parallel_tool_calls": true, "tools": []any{},
	}
	if o.items == nil {
		r["output"] = []any{}
	}
	if t != nil {
		r["usage"] = obj{
			"input_tokens": t.Input + t.Cached, "input_tokens_details": obj{"cached_tokens": t.Cached},
			"output_tokens": t.Output, "output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": t.Input + t.Cached + t.Output,
		}
	}
	return r
}

func (o *responses) begin(Tokens) {
	o.send("response.created", obj{"response": o.response("in_progress", nil)})
}

func (o *responses) item(open, done obj, during func(index int, id string)) {
	index := len(o.items)
	id := fmt.Sprintf("item_%06d_%d", o.id, index)
	open["id"], done["id"] = id, id
	o.send("response.output_item.added", obj{"output_index": index, "item": open})
	during(index, id)
	o.send("response.output_item.done", obj{"output_index": index, "item": done})
	o.items = append(o.items, done)
}

func (o *responses) think(text string) {
	sum := []any{obj{"type": "summary_text", "text": text}}
	o.item(obj{"type": "reasoning", "summary": []any{}}, obj{"type": "reasoning", "summary": sum, "encrypted_content": "eA=="}, func(index int, id string) {
		o.send("response.reasoning_summary_part.added", obj{"item_id": id, "output_index": index, "summary_index": 0, "part": obj{"type": "summary_text", "text": ""}})
		o.send("response.reasoning_summary_text.delta", obj{"item_id": id, "output_index": index, "summary_index": 0, "delta": text})
	})
}

func (o *responses) say(text string) {
	o.item(
		obj{"type": "message", "role": "assistant", "status": "in_progress", "content": []any{}},
		obj{"type": "message", "role": "assistant", "status": "completed", "content": []any{obj{"type": "output_text", "text": text, "annotations": []any{}}}},
		func(index int, id string) {
			for _, p := range pieces(text) {
				o.send("response.output_text.delta", obj{"item_id": id, "output_index": index, "content_index": 0, "delta": p})
			}
		})
}

func (o *responses) callItem(p Part) obj {
	t, args := o.r.resolve(p)
	c := obj{"type": "function_call", "call_id": o.callID("call"), "name": t.Name, "arguments": string(args), "status": "completed"}
	if t.Space != "" {
		c["namespace"] = t.Space
	}
	return c
}

func (o *responses) call(p Part) {
	done := o.callItem(p)
	open := maps.Clone(done)
	open["arguments"], open["status"] = "", "in_progress"
	o.item(open, done, func(index int, id string) {
		o.send("response.function_call_arguments.delta", obj{"item_id": id, "output_index": index, "delta": done["arguments"]})
	})
}

func (o *responses) ping() { o.comment() }

func (o *responses) overload() {
	r := o.response("failed", nil)
	r["error"] = obj{"code": "server_is_overloaded", "message": "Our servers are currently overloaded. Please try again later."}
	o.send("response.failed", obj{"response": r})
}

func (o *responses) finish(refused bool, t Tokens) {
	if refused {
		o.item(obj{"type": "message", "role": "assistant", "status": "in_progress", "content": []any{}},
			obj{"type": "message", "role": "assistant", "status": "completed", "content": []any{obj{"type": "refusal", "refusal": "I cannot help with that."}}},
			func(int, string) {})
	}
	o.send("response.completed", obj{"response": o.response("completed", &t)})
}

func (o *responses) whole(parts []Part, refused bool, t Tokens) any {
	for _, p := range parts {
		switch p.Kind {
		case Think:
			o.items = append(o.items, obj{"type": "reasoning", "summary": []any{obj{"type": "summary_text", "text": p.Text}}})
		case Call:
			o.items = append(o.items, o.callItem(p))
		default:
			o.items = append(o.items, obj{"type": "message", "role": "assistant", "content": []any{obj{"type": "output_text", "text": p.Text}}})
		}
	}
	if refused {
		o.items = append(o.items, obj{"type": "message", "role": "assistant", "content": []any{obj{"type": "refusal", "refusal": "I cannot help with that."}}})
	}
	return o.response("completed", &t)
}

func (o *responses) failure(a Answer) any { return openAIFailure(a, o.r.Model) }

// openAIFailure is the body of a refusal in both of OpenAI's formats.
func openAIFailure(a Answer, model string) any {
	kind, code, text := "server_error", any(nil), "The server had an error while processing your request."
	switch a.Status {
	case http.StatusBadRequest:
		kind, text = "invalid_request_error", "the request is not valid"
	case http.StatusUnauthorized:
		kind, code, text = "invalid_request_error", "invalid_api_key", "Incorrect API key provided."
	case http.StatusNotFound:
		kind, code, text = "invalid_request_error", "model_not_found", "The model `"+model+"` does not exist or you do not have access to it."
	case http.StatusTooManyRequests:
		kind, code, text = "requests", "rate_limit_exceeded", "Rate limit reached."
	case http.StatusServiceUnavailable, 529:
		code, text = "server_is_overloaded", "Our servers are currently overloaded. Please try again later."
	}
	if a.Text != "" {
		text = a.Text
	}
	return obj{"error": obj{"message": text, "type": kind, "param": nil, "code": code}}
}
