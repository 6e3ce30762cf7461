package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// typed says what a caller may do about a request that failed. A table that is
// throttled, away, broken or not deployed is asked again later; anything else is a
// fault of ours.
func typed(err error, format string, args ...any) error {
	err = fmt.Errorf(format+": %w", append(args, err)...)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e := fault.Deployment(err, "the table"); e != nil {
		return e
	}
	if contended(err) || lost(err) {
		return fault.Wrap(fault.Unavailable, err, "the table does not answer at the moment")
	}
	return err
}

// crowded is store.ErrContention as a fault.
func crowded() error {
	return fault.Wrap(fault.Unavailable, store.ErrContention, "too many requests are changing this at the moment")
}
