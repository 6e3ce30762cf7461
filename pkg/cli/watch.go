package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// watchEvery is how often the picture is drawn anew.
const watchEvery = time.Second

func (e *Env) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch [TASK]",
		Short: "Watch the project, or one task, until Ctrl-C",
		Args:  between(0, 1, "the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if !e.TTY(e.Out) {
				return refusal.Of(refusal.TtyRequired, "`lazy watch`").
					WithNext("To wait for a task: `lazy wait`. To read its state: `lazy status`.")
			}
			err := e.watch(c.Context(), words)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
}

func (e *Env) watch(ctx context.Context, words []string) error {
	cl, err := e.client(ctx)
	if err != nil {
		return err
	}
	in := args{}
	if len(words) == 1 {
		in["task_id"] = words[0]
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	turns := int64(-1)
	var header []string
	defer func() { // leave the last picture on the terminal, and the cursor below it
		if len(header) > 0 {
			fmt.Fprintf(e.Out, "\r\x1b[J%s\n", strings.Join(header, "\n"))
		}
	}()
	for first := true; ; first = false {
		var out op.Standing
		if err := cl.Call(ctx, "getStatus", in, &out); err != nil {
			return err
		}
		if out.Task == nil {
			if first {
				fmt.Fprint(e.Out, "\x1b[2J")
			}
			e.repaint(strings.Split(strings.TrimRight(e.standingText(out), "\n"), "\n"))
		} else {
			var log []string
			if log, turns, err = e.stream(ctx, cl, *out.Task, turns); err != nil {
				return err
			}
			header = strings.Split(strings.TrimRight(e.stateText(*out.Task), "\n"), "\n")
			e.append(log, header)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// stream is what the task's conversation has gained since the turn last seen.
func (e *Env) stream(ctx context.Context, cl Client, s op.TaskState, last int64) ([]string, int64, error) {
	var out shown
	if err := cl.Call(ctx, "showTask", args{"task_id": string(s.TaskID), "sections": []string{"turns"}, "limit": 5}, &out); err != nil {
		return nil, last, err
	}
	if out.Turns == nil {
		return nil, last, nil
	}
	r := recordPrinter{e: e}
	for _, t := range out.Turns.Items {
		if t.Seq <= last {
			continue
		}
		last = t.Seq
		r.line("%d  %s", t.Seq, line(turnTitle(t)))
		r.text(t.Text, "   ", t.Truncated)
	}
	if r.b.Len() == 0 {
		return nil, last, nil
	}
	return strings.Split(strings.TrimRight(r.b.String(), "\n"), "\n"), last, nil
}

// repaint replaces the picture on the terminal.
func (e *Env) repaint(lines []string) {
	for i, l := range lines {
		lines[i] = cutTo(l, max(e.Width()-1, 20)) + "\x1b[K"
	}
	fmt.Fprintf(e.Out, "\x1b[H%s\n\x1b[J", strings.Join(lines, "\n"))
}

// append writes new lines of the stream above the header, which is kept last.
func (e *Env) append(log, header []string) {
	for i, l := range header {
		header[i] = cutTo(l, max(e.Width()-1, 20)) + "\x1b[K"
	}
	var b strings.Builder
	b.WriteString("\r\x1b[J")
	for _, l := range log {
		b.WriteString(l + "\n")
	}
	b.WriteString(strings.Join(header, "\n"))
	b.WriteString("\r")
	if up := len(header) - 1; up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	fmt.Fprint(e.Out, b.String())
}
