package git

import (
	"context"
	"errors"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Remote is the only remote that is looked at.
const Remote = "origin"

// What keeps a branch from being fetched.
var (
	ErrNoRemote    = errors.New("the repository has no remote named " + Remote)
	ErrNotOnRemote = errors.New("the branch is not on " + Remote)
	ErrOffline     = errors.New(Remote + " does not answer")
)

// FetchBranch gets the head of a branch of the person's remote, with the person's
// own settings and nothing to answer a question, and notes it as the remote's. It
// moves no branch and pushes nothing.
func (r *Repo) FetchBranch(ctx context.Context, branch string) (string, error) {
	if err := existing(branch); err != nil {
		return "", err
	}
	if _, err := r.ref(ctx, "config", "--get", "remote."+Remote+".url"); err != nil {
		if exitCode(err) == 1 {
			return "", ErrNoRemote
		}
		return "", err
	}
	_, err := r.ref(ctx, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", Remote,
		"+refs/heads/"+branch+":"+remoteRef(branch))
	switch {
	case err == nil:
		return r.Resolve(ctx, remoteRef(branch))
	case strings.Contains(stderrOf(err), "couldn't find remote ref"):
		return "", ErrNotOnRemote
	}
	return "", fault.Wrap(fault.Unavailable, errors.Join(ErrOffline, err), "%s does not answer", Remote)
}

// FetchedContains reports whether a branch, as it was last fetched, holds a commit.
func (r *Repo) FetchedContains(ctx context.Context, branch, sha string) (bool, error) {
	if err := errors.Join(existing(branch), shas(sha)); err != nil {
		return false, err
	}
	ok, err := r.Contains(ctx, remoteRef(branch), sha)
	if errors.Is(err, ErrUnknownRev) {
		return false, nil // it never was fetched
	}
	return ok, err
}

func remoteRef(branch string) string { return "refs/remotes/" + Remote + "/" + branch }
