package app

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// FlowEnded hears that an execution of an operation's flow has closed. It looks at
// the task as a sweep would, which alone decides: hearing it late, twice or never
// ends in the same state (P11).
func (a *App) FlowEnded(ctx context.Context, tenant, opID string) error {
	_, t, err := a.operation(ctx, tenant, opID)
	if fault.KindOf(err) == fault.NotFound {
		return nil // another installation's, or long gone
	}
	if err != nil {
		return err
	}
	return a.look(ctx, t)
}
