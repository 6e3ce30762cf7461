package modelfake

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Wire is a format spoken with agents.
type Wire string

// The wire formats.
const (
	Messages  Wire = "messages"
	Responses Wire = "responses"
	Chat      Wire = "chat"
)

// Tool is a tool that a request offered.
type Tool struct {
	Name  string
	Space string // the namespace it is in, where the format has them
}

// Request is what was sent.
type Request struct {
	Wire   Wire
	Method string
	Path   string
	Header http.Header
	Body   []byte
	Model  string
	Stream bool
	Tools  []Tool
	Side   bool // it offered no tools: a title or the like, which no script answers
	Answer int  // the line of the answer it got, 0 for none
}

// Text is everything the request says, for a look at its content.
func (r Request) Text() string {
	var v any
	if json.Unmarshal(r.Body, &v) != nil {
		return string(r.Body)
	}
	var b strings.Builder
	gather(&b, v)
	return b.String()
}

func gather(b *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		b.WriteString(v)
		b.WriteByte('\n')
	case []any:
		for _, e := range v {
			gather(b, e)
		}
	case map[string]any:
		for _, e := range v {
			gather(b, e)
		}
	}
}

// wireOf tells the format from the path alone, as agents send it below any base.
func wireOf(path string) (Wire, bool) {
	for suffix, w := range map[string]Wire{"/messages": Messages, "/responses": Responses, "/chat/completions": Chat} {
		if strings.HasSuffix(path, suffix) {
			return w, true
		}
	}
	return "", false
}

// understand reads what decides about the answer.
func (r *Request) understand() {
	var in struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
		Tools  []struct {
			Type     string `json:"type"`
			Name     string `json:"name"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"tools"`
	}
	_ = json.Unmarshal(r.Body, &in)
	r.Model, r.Stream = in.Model, in.Stream
	for _, t := range in.Tools {
		switch {
		case len(t.Tools) > 0:
			for _, sub := range t.Tools {
				r.Tools = append(r.Tools, Tool{sub.Name, t.Name})
			}
		case t.Function.Name != "":
			r.Tools = append(r.Tools, Tool{Name: t.Function.Name})
		case t.Name != "":
			r.Tools = append(r.Tools, Tool{Name: t.Name})
		default:
			r.Tools = append(r.Tools, Tool{Name: t.Type})
		}
	}
	r.Side = len(r.Tools) == 0
}

// shells are the names under which CLIs offer a shell.
func shells() []string {
	return []string{"Bash", "bash", "exec_command", "shell_command", "shell"}
}

// resolve finds a tool of the script among those offered: by its name, by the
// end of a prefixed name, or, for "shell", under the names CLIs give it. A tool
// that is not offered is called all the same, as a model might.
func (r *Request) resolve(p Part) (Tool, json.RawMessage) {
	if p.Text == "shell" {
		return r.shell(p.Args)
	}
	for _, t := range r.Tools {
		if t.Name == p.Text {
			return t, p.Args
		}
	}
	for _, t := range r.Tools {
		if strings.HasSuffix(t.Name, "_"+p.Text) {
			return t, p.Args
		}
	}
	return Tool{Name: p.Text}, p.Args
}

func (r *Request) shell(args json.RawMessage) (Tool, json.RawMessage) {
	var in struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal(args, &in)
	name := ""
	for _, s := range shells() {
		if slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == s }) {
			name = s
			break
		}
	}
	var out any
	switch name {
	case "exec_command":
		out = map[string]any{"cmd": in.Command}
	case "shell":
		out = map[string]any{"command": []string{"sh", "-c", in.Command}}
	case "":
		name = map[Wire]string{Messages: "Bash", Responses: "exec_command", Chat: "bash"}[r.Wire]
		fallthrough
	default:
		out = map[string]any{"command": in.Command, "cmd": in.Command, "description": "As scripted"}
		if name != "exec_command" {
			out = map[string]any{"command": in.Command, "description": "As scripted"}
		}
	}
	b, _ := json.Marshal(out)
	return Tool{Name: name}, b
}
