package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Untrusted is git over a workspace an agent can write. It is made in one place
// (GT-024) and works from a recorded tip. None of its methods lets git open a
// file of the workspace: files are copied out, and written back, through
// os.Root, and git works on the copies in a directory of its own.
type Untrusted struct {
	repo *Repo
	ws   Workspace
	tip  string
	// stats of files as they were when last read, so that the index given back
	// to the agent knows them.
	stats map[string]stat
}

// Untrusted returns git over ws with the commit its branch is recorded at.
func (r *Repo) Untrusted(ws Workspace, tip string) (*Untrusted, error) {
	if err := shas(tip); err != nil {
		return nil, err
	}
	if err := ws.Check(); err != nil {
		return nil, err
	}
	return &Untrusted{repo: r, ws: ws, tip: tip, stats: map[string]stat{}}, nil
}

// Status is the state of a workspace at rest.
type Status struct {
	Dirty    []string // paths with edits on no branch, untracked ones too, ignored ones not
	Unmerged []string // paths whose merge is not resolved
	MidMerge bool     // a merge was begun and not concluded; ask this before Dirty (GT-019)
	Merging  string   // the commit being merged, "" when none or unreadable
	Drifted  string   // where HEAD is if not on the task's branch; reported, never adopted
}

// Status compares the workspace with the recorded tip.
func (u *Untrusted) Status(ctx context.Context) (st Status, err error) {
	if st.Drifted, st.Merging, st.MidMerge, err = u.meta(); err != nil {
		return Status{}, err
	}
	err = u.repo.with(u.ws.scratch(), func(p *private) error {
		s, err := u.snapshot(ctx, p, nil, nil)
		if err != nil {
			return err
		}
		st.Unmerged = s.unmerged()
		dirty := map[string]bool{}
		for path := range s.changed {
			dirty[path] = true
		}
		for _, e := range s.index {
			if e.Stage == 0 && !e.Intent && e.Blob != s.tree[e.Path] {
				dirty[e.Path] = true // staged, even where the file was put back
			}
		}
		for _, path := range s.embedded {
			dirty[path] = true
		}
		st.Dirty = sortedKeys(dirty)
		return nil
	})
	if err != nil {
		return Status{}, err
	}
	st.MidMerge = st.MidMerge || len(st.Unmerged) > 0
	return st, nil
}

// meta reads HEAD and MERGE_HEAD of the workspace.
func (u *Untrusted) meta() (drifted, merging string, mid bool, err error) {
	root, err := os.OpenRoot(u.ws.GitDir)
	if err != nil {
		return "", "", false, fmt.Errorf("open workspace git directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	switch b, _, err := readRegular(root, "HEAD", maxMeta); {
	case err != nil:
		drifted = "HEAD cannot be read"
	case string(b) == "ref: refs/heads/"+u.ws.Branch+"\n":
	default:
		text := strings.TrimSpace(string(b))
		if IsSHA(text) {
			drifted = "detached at " + short(text)
		} else {
			drifted = fmt.Sprintf("%.200q", strings.TrimPrefix(text, "ref: "))
		}
	}
	b, _, err := readRegular(root, "MERGE_HEAD", maxMeta)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return drifted, "", false, nil
	case err != nil:
		return drifted, "", true, nil // something is there, and it is not a commit
	}
	if text := strings.TrimSpace(string(b)); IsSHA(text) {
		merging = text
	}
	return drifted, merging, true, nil
}

// CommitSpec says what to commit.
type CommitSpec struct {
	Message string
	Files   []string // files or directories, relative to the tree; empty is everything not ignored
	Author  Person
	When    time.Time // an argument, so that a retry makes the same object
	// MergeParents are the commits whose merge this workspace was told to make.
	// They are required to conclude a merge: an agent can write any MERGE_HEAD.
	MergeParents []string
}

// Commit is a commit whose objects are in the shared store and which no ref
// names yet.
type Commit struct {
	Parent  string
	Commit  string
	Tree    string
	Merged  []string // further parents
	Files   []string // paths that differ from Parent
	Skipped []string // repositories inside the tree, which are not committed
	Drifted string
}

// Prepare commits the workspace's files on the recorded tip and imports the new
// objects into the shared store. It moves no ref: the caller records the result
// first (UW-013). ErrNothing means that there is nothing to commit.
func (u *Untrusted) Prepare(ctx context.Context, spec CommitSpec) (c Commit, err error) {
	if err := spec.Author.check(); err != nil {
		return Commit{}, err
	}
	if strings.TrimSpace(spec.Message) == "" || strings.Contains(spec.Message, "\x00") {
		return Commit{}, fault.New(fault.Invalid, "a commit needs a message without NUL bytes")
	}
	want, err := wanted(spec.Files)
	if err != nil {
		return Commit{}, err
	}
	if c.Merged, c.Drifted, err = u.mergeParents(spec); err != nil {
		return Commit{}, err
	}
	err = u.repo.with(u.ws.scratch(), func(p *private) error { return u.prepare(ctx, p, spec, want, &c) })
	if err != nil {
		return Commit{}, err
	}
	return c, nil
}

func (u *Untrusted) prepare(ctx context.Context, p *private, spec CommitSpec, want func(string) bool, c *Commit) error {
	s, err := u.snapshot(ctx, p, nil, want)
	if err != nil {
		return err
	}
	if files := s.unmerged(); len(files) > 0 {
		return fault.Wrap(fault.Conflict, ErrUnmerged, "unresolved merge in %s", list(files)).
			WithNext("Resolve each file, git add it, commit again.").WithDetail("files", files)
	}
	if len(c.Merged) > 0 && s.index == nil {
		return fault.Wrap(fault.Conflict, ErrIndex, "the index cannot be read, so nothing says that the merge is resolved").
			WithNext("Run git update-index --no-split-index, commit again.")
	}
	if err := s.matches(spec.Files); err != nil {
		return err
	}
	if len(s.changed) == 0 && len(c.Merged) == 0 {
		return fault.Wrap(fault.Conflict, ErrNothing, "there is nothing to commit")
	}
	if len(s.changed) == 0 { // a merge that changes no file
		if _, err := p.run(ctx, nil, "read-tree", u.tip); err != nil {
			return err
		}
	}
	out, err := p.run(ctx, nil, "write-tree")
	if err != nil {
		return fmt.Errorf("write tree: %w", err)
	}
	c.Parent, c.Tree = u.tip, strings.TrimSpace(string(out))
	c.Files, c.Skipped = sortedKeys(s.changed), s.embedded
	c.Commit, err = p.commitTree(ctx, p.run, c.Tree, append([]string{u.tip}, c.Merged...), spec.Message, spec.Author, spec.When)
	if err != nil {
		return err
	}
	maps.Copy(u.stats, s.stats)
	return p.importTo(ctx, c.Commit, append([]string{u.tip}, c.Merged...))
}

// mergeParents decides which merge, if any, a commit concludes (GT-016).
func (u *Untrusted) mergeParents(spec CommitSpec) (parents []string, drifted string, err error) {
	drifted, merging, mid, err := u.meta()
	if err != nil {
		return nil, "", err
	}
	switch {
	case !mid && len(spec.MergeParents) > 0:
		return nil, "", fault.Wrap(fault.Conflict, ErrNoMerge, "no merge is in progress, so there is none to conclude")
	case !mid:
		return nil, drifted, nil
	}
	for _, p := range spec.MergeParents {
		if p == merging && merging != "" {
			if len(spec.Files) > 0 {
				return nil, "", fault.New(fault.Invalid, "a merge is committed whole, not by file")
			}
			return []string{merging}, drifted, nil
		}
	}
	return nil, "", fault.Wrap(fault.Conflict, ErrForeignMerge, "the workspace is merging %s, which this task was not told to merge", short(merging)).
		WithNext("Run git merge --abort, or sync the task.").WithDetail("commit", merging)
}

// matches refuses a named path that is neither in the tip nor in the tree.
func (s *snapshot) matches(files []string) error {
	for _, f := range files {
		hit := func(p string) bool { return within(p, f) }
		if !anyKey(s.changed, hit) && !anyKey(s.tree, hit) {
			return fault.New(fault.Invalid, "%q names no file that could be committed", f).WithDetail("file", f)
		}
	}
	return nil
}

func anyKey[V any](m map[string]V, ok func(string) bool) bool {
	for k := range m {
		if ok(k) {
			return true
		}
	}
	return false
}

// wanted turns named paths into a filter; nil is everything.
func wanted(files []string) (func(string) bool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	for _, f := range files {
		if f != "." && !safePath(strings.TrimSuffix(f, "/")) {
			return nil, fault.New(fault.Invalid, "%q is not a path in the workspace", f)
		}
	}
	return func(p string) bool {
		for _, f := range files {
			if within(p, f) {
				return true
			}
		}
		return false
	}, nil
}

func within(p, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return dir == "." || p == dir || strings.HasPrefix(p, dir+"/")
}
