package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/op"
)

// explain prints why a task is where it is, and what to type.
func (e *Env) explain(ctx context.Context, task string) error {
	raw, err := e.call(ctx, "explainTask", args{"task_id": task})
	if err != nil {
		return err
	}
	return show(e, raw, func(out op.Explained) error {
		for _, f := range out.Facts {
			if err := e.printf("%-9s %s\n", f.About, line(f.Says)); err != nil {
				return err
			}
		}
		next := line(out.Next)
		if !out.At.IsZero() {
			next += " It is looked at again " + e.within(out.At) + "."
		}
		if err := e.printf("%-9s %s\n", "next", next); err != nil {
			return err
		}
		for _, d := range out.Do {
			if err := e.printf("%-9s %s\n", "type", line(d)); err != nil {
				return err
			}
		}
		if strings.Contains(out.Next, "waits for usage pause") && e.TTY(e.Out) { // a hint for a person, and for nobody else (US-014)
			return e.printf("%-9s %s\n", "type", "lazy plane config set "+pauseKey+" off --task "+line(out.Code))
		}
		return nil
	})
}

// within prints how far ahead a time is.
func (e *Env) within(t time.Time) string {
	d := t.Sub(e.Now())
	switch {
	case d <= time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("within %d s", int(d.Seconds())+1)
	}
	return fmt.Sprintf("within %d min", int(d.Minutes())+1)
}
