package crash

import (
	"context"
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/op"
)

// always are the promises that hold at every instant. The others say where
// things end, so they are asked for once everything rests.
const always = "P1 P2 P4 P6"

// Look asks the plane which promises do not hold now.
func (w *World) Look(ctx context.Context) (op.Checked, error) {
	var c op.Checked
	err := w.Call(ctx, "checkDeep", Args{}, &c)
	return c, err
}

// Sound checks the promises that hold at every instant.
func (w *World) Sound(ctx context.Context) error {
	c, err := w.Look(ctx)
	if err != nil {
		return err
	}
	var bad []string
	for _, f := range c.Findings {
		if strings.Contains(always, f.Promise) {
			bad = append(bad, said(f))
		}
	}
	return findings(bad)
}

func said(f op.Finding) string { return f.Promise + " " + f.Task + ": " + f.Says }

// Found is what the checker found, each finding a sentence.
type Found struct{ All []string }

func (f *Found) Error() string { return strings.Join(f.All, "\n") }

func findings(all []string) error {
	if len(all) == 0 {
		return nil
	}
	return &Found{all}
}

// Settled waits until nothing is ordered any more and every promise holds.
func (w *World) Settled(ctx context.Context) error {
	var last op.Checked
	n := 0
	err := w.until(ctx, "everything rests and every promise holds", func() (bool, error) {
		var err error
		if last, err = w.Look(ctx); err != nil {
			return false, err
		}
		if len(last.Findings) == 0 && last.Ordered == 0 && len(last.Moving) == 0 {
			return true, nil
		}
		if n++; n%20 == 0 {
			return false, w.Jump(jump)
		}
		return false, nil
	})
	if err == nil {
		return nil
	}
	var bad []string
	for _, f := range last.Findings {
		bad = append(bad, said(f))
	}
	bad = append(bad, last.Pending...)
	if len(bad) == 0 {
		return err
	}
	return fmt.Errorf("%w: %w", err, findings(bad))
}

// Landed checks that a branch has exactly one merge of each task, and the files.
func (w *World) Landed(ctx context.Context, branch string, names ...string) error {
	out, err := w.Git(ctx, "log", "--format=%(trailers:key=Lazy-Task,valueonly)", branch)
	if err != nil {
		return err
	}
	if n := len(strings.Fields(out)); n != len(names) {
		return fmt.Errorf("%s has %d merges, want %d", branch, n, len(names))
	}
	for _, name := range names {
		got, err := w.Git(ctx, "show", branch+":"+name+".txt")
		if err != nil {
			return err
		}
		if got != name {
			return fmt.Errorf("%s.txt on %s is %q", name, branch, got)
		}
	}
	return nil
}
