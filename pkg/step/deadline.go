package step

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// The time before the end of the function at which a step's context ends, and at
// which it is answered for when it goes on all the same.
const (
	margin = 3 * time.Second
	last   = time.Second
)

// late is the answer of a step that outlasted its function. It is tried again: a
// step is idempotent, and what it began may be found done.
func late(cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "the step took longer than its function may run")
}

func safely(ctx context.Context, do engine.Step, payload []byte) (out []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return do(ctx, payload)
}

// Answered answers for a step before the function that runs it is cut off, which
// would tell the flow nothing but that.
func Answered(do engine.Step) engine.Step {
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		end, ok := ctx.Deadline()
		if !ok {
			return do(ctx, payload)
		}
		over, free := context.WithDeadline(context.WithoutCancel(ctx), end.Add(-last))
		defer free()
		work, stop := context.WithDeadline(ctx, end.Add(-margin))
		type outcome struct {
			out []byte
			err error
		}
		done := make(chan outcome, 1)
		go func() {
			defer stop()
			out, err := safely(work, do, payload)
			if err != nil && errors.Is(work.Err(), context.DeadlineExceeded) && fault.KindOf(err) == fault.Internal {
				err = late(err)
			}
			done <- outcome{out, err}
		}()
		select {
		case o := <-done:
			return o.out, o.err
		case <-over.Done():
			return nil, late(context.DeadlineExceeded)
		}
	}
}
