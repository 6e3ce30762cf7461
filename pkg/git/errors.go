package git

import (
	"errors"
	"fmt"
	"strings"
)

// What can be wrong, for errors.Is. Faults wrap them with the words for a person.
var (
	ErrNoGit         = errors.New("git is missing or too old")
	ErrNotRepository = errors.New("not a git repository")
	ErrUnsupported   = errors.New("a kind of repository that is not supported")
	ErrNoCommit      = errors.New("repository has no commit")
	ErrUnknownRev    = errors.New("unknown revision")
	ErrBranchExists  = errors.New("branch exists elsewhere")
	ErrBadName       = errors.New("not a usable name")
	ErrLostRace      = errors.New("ref moved meanwhile")
	ErrNothing       = errors.New("nothing to commit")
	ErrUnmerged      = errors.New("unmerged paths")
	ErrNoMerge       = errors.New("no merge in progress")
	ErrForeignMerge  = errors.New("merge was not started here")
	ErrPlan          = errors.New("workspace differs from its recorded plan")
	ErrUnsafeFile    = errors.New("file is not safe to read")
	ErrLocked        = errors.New("index is locked")
	ErrIndex         = errors.New("index cannot be read")
	ErrBadObject     = errors.New("object fails git's checks")
)

// Conflict says that a merge touches the same lines on both sides.
type Conflict struct{ Files []string }

func (e *Conflict) Error() string { return "merge conflict in " + list(e.Files) }

// Overlap says that uncommitted edits are in the way. Nothing was changed.
type Overlap struct {
	Path  string // the checkout that holds the edits
	Files []string
}

func (e *Overlap) Error() string {
	return fmt.Sprintf("edits in %s overlap: %s", e.Path, list(e.Files))
}

// list names at most ten paths, quoted, so that a hostile name stays one word.
func list(paths []string) string {
	const most = 10
	var b strings.Builder
	for i, p := range paths {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(paths)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", p)
	}
	return b.String()
}
