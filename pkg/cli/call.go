package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// Client calls operations of one control plane. Answers are taken as the JSON
// they came in, since --json prints exactly that (OT-008).
type Client interface {
	Call(ctx context.Context, command string, in, out any, opts ...client.Option) error
	Follow(ctx context.Context, operation, cursor string, out any, opts ...client.Option) error
}

var _ Client = (*client.Client)(nil)

// dialer returns a client of the control plane at url.
func (e *Env) dialer(url, token string, transport *http.Transport) Client {
	return &client.Client{
		Base: url, Token: token, HTTP: &http.Client{Transport: transport}, Actor: e.Getenv(names.EnvActor),
	}
}

// args are the arguments of an operation. The catalogue's schema judges them.
type args map[string]any

// with adds an argument that is not empty.
func (a args) with(name string, v any) args {
	switch x := v.(type) {
	case string:
		if x == "" {
			return a
		}
	case []string:
		if len(x) == 0 {
			return a
		}
	case int:
		if x == 0 {
			return a
		}
	case bool:
		if !x {
			return a
		}
	}
	a[name] = v
	return a
}

// call runs one operation on the control plane in charge.
func (e *Env) call(ctx context.Context, command string, in args) (json.RawMessage, error) {
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	return raw(ctx, c, command, in)
}

func raw(ctx context.Context, c Client, command string, in args, opts ...client.Option) (json.RawMessage, error) {
	var out json.RawMessage
	err := c.Call(ctx, command, in, &out, opts...)
	return out, err
}

// begun is the answer of a verb whose work goes on after it.
type begun struct {
	TaskID    string `json:"task_id"`
	Code      string `json:"code"`
	Operation string `json:"operation_id"`
}

// narrated runs a verb of OB-001: it begins the operation, follows it to its end
// phase by phase, and returns the operation's answer. word is the task as the
// person named it.
func (e *Env) narrated(ctx context.Context, title, verb, word string, in args) (json.RawMessage, error) {
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	return e.narratedBy(ctx, c, title, verb, word, in)
}

func (e *Env) narratedBy(ctx context.Context, c Client, title, verb, word string, in args) (json.RawMessage, error) {
	return e.carry(ctx, c, e.narrate(title), verb, word, in)
}

// carry begins an operation and follows it to its end.
func (e *Env) carry(ctx context.Context, c Client, n *narrator, verb, word string, in args) (json.RawMessage, error) {
	stop := n.run()
	out, err := raw(ctx, c, verb+"Task", in, client.WithBeat(n.beat), client.WithPhase(n.phase))
	var b begun
	if err == nil {
		err = decode(out, &b)
	}
	if err == nil && b.Operation != "" {
		var end json.RawMessage
		err = c.Follow(ctx, b.Operation, "", &end, client.WithBeat(n.beat), client.WithPhase(n.phase))
		if err == nil && len(end) > 0 && string(end) != "null" {
			out = end
		}
	}
	stop()
	if still := goesOn(ctx, err, verb+" of "+line(word), b.Operation); still != nil {
		n.end(false)
		return nil, still
	}
	n.end(err != nil)
	if b.Operation != "" {
		err = outcome(err)
	}
	return out, err
}

// outcome is the error of work that had begun: a failure, never a refusal, though
// both are a conflict on the wire (OT-052).
func outcome(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Conflict {
		return err
	}
	failed := *f
	failed.Kind = fault.Failed
	return &failed
}

// goesOn tells an operation that failed from one that is no longer followed:
// the person pressed Ctrl-C, or the connection broke. Its outcome can be asked
// for by its id.
func goesOn(ctx context.Context, err error, what, operation string) error {
	if err == nil {
		return nil
	}
	lost, cut := errors.AsType[*client.LostError](err)
	if cut && lost.Operation != "" {
		operation = lost.Operation
	}
	_, away := errors.AsType[*client.UnreachableError](err)
	if operation == "" || !cut && !away && ctx.Err() == nil {
		return nil
	}
	return &stillError{what: what, id: operation, next: "lazy wait --operation " + operation}
}

// noFiles keeps shells from completing a task with file names.
func noFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}
