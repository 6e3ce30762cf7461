package disk

import (
	"context"
	"errors"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

var _ app.Remoter = (*repository)(nil)

// fetchMost bounds a fetch: a sync waits for it, and goes on without it.
const fetchMost = 20 * time.Second

// Fetch gets a task's branch as the person's origin has it, or says in one line why
// a sync goes on without (SN-003).
func (r *repository) Fetch(ctx context.Context, branch string) (turn.Own, error) {
	own := turn.Own{Ref: git.Remote + "/" + branch}
	limited, cancel := context.WithTimeout(ctx, fetchMost)
	defer cancel()
	var err error
	own.Commit, err = r.git.FetchBranch(limited, branch)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return turn.Own{}, err
	case errors.Is(err, git.ErrNoRemote):
		own.Skip = "the repository has no remote of its own here"
	case errors.Is(err, git.ErrNotOnRemote):
		own.Skip = branch + " is not on " + git.Remote
	case errors.Is(err, git.ErrOffline), limited.Err() != nil:
		own.Skip = git.Remote + " does not answer"
	default:
		return turn.Own{}, err
	}
	return own, nil
}

// Fetched reports whether what was last fetched of branch holds commit.
func (r *repository) Fetched(ctx context.Context, branch, commit string) (string, bool, error) {
	ok, err := r.git.FetchedContains(ctx, branch, commit)
	return git.Remote + "/" + branch, ok, err
}
