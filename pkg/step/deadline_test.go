package step_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/step"
)

// A step that is over time is answered for, whether it heeds its context or not,
// and the flow tries it again.
func TestADeadlineIsAnsweredAndNotCut(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(ctx context.Context) error
		want fault.Kind
	}{
		"in time":           {func(context.Context) error { return nil }, ""},
		"heeds its context": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, fault.Unavailable},
		"heeds nothing":     {func(context.Context) error { time.Sleep(time.Hour); return nil }, fault.Unavailable},
		"panics":            {func(context.Context) error { panic("no") }, fault.Internal},
		"fails of its own":  {func(context.Context) error { return fault.New(fault.NotFound, "no") }, fault.NotFound},
		"fails unknown":     {func(context.Context) error { return errors.New("x") }, fault.Internal},
		"just in time":      {func(context.Context) error { time.Sleep(58 * time.Second); return nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				out, err := step.Answered(func(ctx context.Context, p []byte) ([]byte, error) { return p, c.do(ctx) })(ctx, []byte("p"))
				if got := fault.KindOf(err); got != c.want || time.Since(began) >= time.Minute || err == nil && string(out) != "p" {
					t.Errorf("after %s: %q, %v", time.Since(began), out, err)
				}
				time.Sleep(2 * time.Hour) // what went on all the same ends too
			})
		})
	}
	if out, err := step.Answered(func(_ context.Context, p []byte) ([]byte, error) { return p, nil })(t.Context(), []byte("p")); string(out) != "p" || err != nil {
		t.Errorf("without a deadline: %q, %v", out, err)
	}
}
