package git

import (
	"context"
	"fmt"
	"os"
	"time"
)

// CommitPatch makes a commit on base of what a recovery patch holds. Equal
// arguments make the same object.
func (r *Repo) CommitPatch(ctx context.Context, base, patch, message string, who Person, when time.Time) (sha string, err error) {
	if err := shas(base); err != nil {
		return "", err
	}
	if err := who.check(); err != nil {
		return "", err
	}
	f, err := os.Open(patch)
	if err != nil {
		return "", err
	}
	defer f.Close()
	err = r.with(r.scratch(), func(p *private) error {
		if _, err := p.run(ctx, nil, "read-tree", base); err != nil {
			return fmt.Errorf("apply patch to %s: %w", short(base), err)
		}
		if _, err := p.run(ctx, f, "apply", "--cached", "--whitespace=nowarn", "-"); err != nil {
			return fmt.Errorf("apply patch to %s: %w", short(base), err)
		}
		out, err := p.run(ctx, nil, "write-tree")
		if err != nil {
			return fmt.Errorf("apply patch to %s: %w", short(base), err)
		}
		sha, err = p.commitTree(ctx, p.run, string(out[:len(out)-1]), []string{base}, message, who, when)
		if err != nil {
			return err
		}
		return p.importTo(ctx, sha, []string{base})
	})
	return sha, err
}
