package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
)

func (e *Env) waitCommand() *cobra.Command {
	operation := ""
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "wait TASK…",
		Short: "Wait until one of the tasks settles",
		Long: "wait returns as soon as one of the named tasks needs you or is over. With --timeout it gives up with exit\n" +
			"code 5; nothing that runs is touched by that. --operation goes back to an operation by its id.",
		Example: "  lazy wait login\n  lazy wait login parser --timeout 10m",
		Args: func(c *cobra.Command, words []string) error {
			if operation != "" {
				return exactly()(c, words)
			}
			return between(1, names.WaitTasks, "the task")(c, words)
		},
		ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if timeout < 0 {
				return usage(c, "--timeout expects a time such as 10m, got %s", timeout)
			}
			if operation != "" {
				return e.reattach(c, operation)
			}
			return e.wait(c, words, timeout)
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "give up after this long, for example 10m; never by default")
	c.Flags().StringVar(&operation, "operation", "", "go back to this operation instead, and give its answer")
	e.jsonFlag(c)
	return c
}

// wait asks hop by hop: one hop is bounded by the control plane, the whole wait
// only by the person (OT-023).
func (e *Env) wait(c *cobra.Command, words []string, timeout time.Duration) error {
	cl, err := e.client(c.Context())
	if err != nil {
		return err
	}
	n := e.narrateOn(e.Err, "")
	defer n.run()()
	n.quietly("waiting for " + strings.Join(words, ", "))
	began, cursor := e.Now(), ""
	for {
		hop := names.WaitMax
		if timeout > 0 {
			hop = min(hop, max(timeout-e.Now().Sub(began), time.Second))
		}
		in := args{"task_ids": words, "timeout_s": int((hop + time.Second - 1) / time.Second)}.with("cursor", cursor)
		out, err := raw(c.Context(), cl, "waitTasks", in, client.WithBeat(n.beat))
		if err != nil {
			n.end(false)
			if c.Context().Err() != nil {
				return &waitError{words: words, why: "interrupted"}
			}
			return err
		}
		var w op.Waited
		if err := decode(out, &w); err != nil {
			return err
		}
		cursor = w.Cursor
		over := timeout > 0 && e.Now().Sub(began) >= timeout
		if len(w.Settled) == 0 && !over {
			continue
		}
		n.end(false)
		if e.json {
			if err := e.printJSON(out); err != nil {
				return err
			}
		} else if err := e.printSettled(w); err != nil {
			return err
		}
		if len(w.Settled) == 0 {
			return &waitError{words: words, why: "the time is up"}
		}
		return nil
	}
}

// waitError ends a wait before anything settled: exit code 5.
type waitError struct {
	words []string
	why   string
}

func (w *waitError) Error() string {
	return fmt.Sprintf("%s; still running: %s", w.why, strings.Join(w.words, ", "))
}

func (e *Env) printSettled(w op.Waited) error {
	for _, s := range w.Settled {
		text := s.Text
		if text == "" {
			text = s.Status.Words()
		}
		if s.Merge != "" {
			text += ", " + s.Merge
		}
		if s.Blocking > 0 {
			text += fmt.Sprintf(", %d to decide", s.Blocking)
		}
		if s.Final != "" {
			text += ", " + s.Final
		}
		if err := e.printf("%s is %s\n", line(s.Code), line(text)); err != nil {
			return err
		}
	}
	return nil
}

// reattach goes back to an operation and gives the answer its first call would
// have given, failures included.
func (e *Env) reattach(c *cobra.Command, operation string) error {
	cl, err := e.client(c.Context())
	if err != nil {
		return err
	}
	n := e.narrate("Operation " + line(operation))
	stop := n.run()
	var out json.RawMessage
	err = cl.Follow(c.Context(), operation, "", &out, client.WithBeat(n.beat), client.WithPhase(n.phase))
	stop()
	if fault.KindOf(err) == fault.NotFound {
		n.end(false)
		return err
	}
	if still := goesOn(c.Context(), err, "the operation", operation); still != nil {
		n.end(false)
		return still
	}
	n.end(err != nil)
	if err != nil {
		return outcome(err)
	}
	if e.json {
		return e.printJSON(out)
	}
	var b struct {
		Code   string `json:"code"`
		Status string `json:"status"`
		Merge  string `json:"merge_sha"`
	}
	if err := decode(out, &b); err != nil {
		return err
	}
	if b.Merge != "" {
		return e.printf("Merged %s as %s.\n", line(b.Code), short(line(b.Merge)))
	}
	return e.printf("%s is %s.\n", line(b.Code), line(b.Status))
}
