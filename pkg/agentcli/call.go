package agentcli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// tools returns the caller of the supervisor's socket. It holds no secret: who
// calls is decided at the other end (AG-024).
func (p Program) tools(getenv func(string) string, wait client.Wait) (*client.ToolClient, error) {
	socket := getenv(names.EnvSocket)
	if socket == "" {
		return nil, fault.New(fault.Invalid, "%s is not set: this works only in an agent's sandbox", names.EnvSocket)
	}
	segment := getenv(names.EnvTask)
	if segment == "" {
		segment = "self"
	}
	return &client.ToolClient{
		Base: "http://lazy", Segment: segment, HTTP: client.Unix(socket), NewID: p.NewID, Wait: wait,
	}, nil
}

// call calls one tool with arguments from the command line or, for "-", from
// stdin, and prints its structured result.
func (p Program) call(ctx context.Context, args []string, getenv func(string) string, s Stdio) error {
	f := flags("call", s)
	if err := parse(f, args, true); err != nil {
		return err
	}
	if f.NArg() < 1 || f.NArg() > 2 {
		return fault.New(fault.Invalid, "usage: lazy-agent call TOOL [JSON | -]")
	}
	arguments := []byte("{}")
	switch text := f.Arg(1); text {
	case "":
	case "-":
		b, err := io.ReadAll(io.LimitReader(s.In, names.BodyMax+1))
		if err != nil {
			return fmt.Errorf("read arguments: %w", err)
		}
		arguments = b
	default:
		arguments = []byte(text)
	}
	arguments = bytes.TrimSpace(arguments)
	if !json.Valid(arguments) || !bytes.HasPrefix(arguments, []byte("{")) {
		return fault.New(fault.Invalid, "the arguments of %s have to be one JSON object", f.Arg(0))
	}
	c, err := p.tools(getenv, client.Wait{Window: names.ReconnectWindow})
	if err != nil {
		return err
	}
	reply, err := c.Call(ctx, client.ToolCall{Tool: f.Arg(0), Arguments: arguments})
	if err != nil {
		return unanswered(f.Arg(0), err)
	}
	if f := reply.Fault(); f != nil {
		return f
	}
	if len(reply.Structured) > 0 && string(reply.Structured) != "null" {
		_, err = fmt.Fprintf(s.Out, "%s\n", reply.Structured)
		return err
	}
	for _, part := range reply.Content {
		if _, err := fmt.Fprintln(s.Out, part.Text); err != nil {
			return err
		}
	}
	return nil
}

// unanswered words a call that got no answer from the supervisor.
func unanswered(tool string, err error) error {
	if _, away := errors.AsType[*client.UnreachableError](err); away {
		return fault.Wrap(fault.Unavailable, err, "the tools of this turn cannot be reached, so %s was not done", tool).
			WithNext("The turn may be over. Stop, and describe in your answer what is left to do.")
	}
	if _, lost := errors.AsType[*client.LostError](err); lost {
		return fault.Wrap(fault.Unavailable, err, "the answer to %s was lost on its way, so it may have been done or not", tool).
			WithNext("Look before you call it again, for example with lazy_show.")
	}
	return err
}

// readOnly reports whether only reads are to be offered (AG-010, AG-011).
func readOnly(flag bool, getenv func(string) string) bool {
	return flag || strings.TrimSpace(getenv(names.EnvReadOnly)) == "1"
}
