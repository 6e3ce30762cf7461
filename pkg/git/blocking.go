package git

import (
	"context"
	"errors"
)

// Blocking lists the uncommitted edits of the workspace that stand in the way of
// its branch moving from the recorded tip to next. It changes nothing.
func (u *Untrusted) Blocking(ctx context.Context, next string) (files []string, err error) {
	if err := shas(next); err != nil {
		return nil, err
	}
	err = u.repo.with(u.ws.scratch(), func(p *private) error {
		_, err := u.clear(ctx, p, next)
		return err
	})
	if o, ok := errors.AsType[*Overlap](err); ok {
		return o.Files, nil
	}
	return nil, err
}
