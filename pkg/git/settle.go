package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Settled says how an unfinished merge was taken back (GT-013).
type Settled struct {
	Settled  bool
	How      string   // "none", "abort", "reset"; "" when it is unfinished
	Found    []string // paths that were unmerged
	Patch    string   // what a reset discarded, for git apply
	Commands []string // what a person can run when it is unfinished
	Tree     string   // where
}

// Recovery says where patches go. No agent can write there.
type Recovery struct {
	Dir  string
	When time.Time
}

// Settle takes an unfinished merge back (GT-014). It first aborts: files go back
// to the tip and edits that have nothing to do with the merge stay. Contents are
// compared, never times, so refreshing the index could not help a second try.
// When an edit lies on top of the merge it saves everything as a patch and resets
// tracked files, or does nothing at all if the patch cannot be saved.
func (u *Untrusted) Settle(ctx context.Context, to Recovery) (res Settled, err error) {
	res.Tree = u.ws.Tree
	_, _, mid, err := u.meta()
	if err != nil {
		return res, err
	}
	err = u.repo.with(u.ws.scratch(), func(p *private) error {
		s, err := u.snapshot(ctx, p, nil, nil)
		if err != nil {
			return err
		}
		res.Found = s.unmerged()
		if !mid && len(res.Found) == 0 {
			res.How = "none"
			return nil
		}
		back, ok := s.abort()
		res.How = "abort"
		if !ok {
			if res.Patch, err = s.save(ctx, to, "merge-settle"); err != nil {
				return fmt.Errorf("save the edits: %w", err)
			}
			back, res.How = s.reset(), "reset"
		}
		if err := u.write(ctx, p, u.tip, onlyFiles(back, s)); err != nil {
			return err
		}
		return u.settleIndex(ctx, p, u.tip, back, nil)
	})
	if err != nil {
		res.How = ""
		res.Commands = []string{
			"cd " + shellQuote(u.ws.Tree),
			"git merge --abort || git update-index --refresh && git merge --abort",
		}
		return res, fmt.Errorf("settle merge: %w", err)
	}
	res.Settled = true
	return res, nil
}

// staged returns the agent's index by path; unmerged paths have a zero blob.
func (s *snapshot) staged() map[string]blob {
	if s.index == nil {
		return s.tree
	}
	m := make(map[string]blob, len(s.index))
	for _, e := range s.index {
		if e.Stage != 0 {
			m[e.Path] = blob{}
		} else if !e.Intent {
			m[e.Path] = e.Blob
		}
	}
	return m
}

// abort lists what the index has other than the tip, as changes back to it. It
// is not possible when a file was edited after the merge wrote it.
func (s *snapshot) abort() ([]change, bool) {
	staged := s.staged()
	var back []change
	for _, p := range sortedKeys(union(staged, s.tree)) {
		at, was := staged[p], s.tree[p]
		if at == was {
			continue
		}
		if is := s.entry(p); at.Mode != 0 && is != at && is != was {
			return nil, false
		}
		back = append(back, change{Path: p, Old: at, New: was})
	}
	return back, true
}

// reset lists every tracked path that is not as in the tip.
func (s *snapshot) reset() []change {
	staged := s.staged()
	var back []change
	for _, p := range sortedKeys(union(staged, s.tree)) {
		if staged[p] != s.tree[p] || s.entry(p) != s.tree[p] {
			back = append(back, change{Path: p, Old: staged[p], New: s.tree[p]})
		}
	}
	return back
}

// onlyFiles leaves out changes whose file is right already.
func onlyFiles(back []change, s *snapshot) []change {
	var files []change
	for _, c := range back {
		if s.entry(c.Path) != c.New {
			files = append(files, c)
		}
	}
	return files
}

func union(a, b map[string]blob) map[string]bool {
	m := make(map[string]bool, len(a)+len(b))
	for k := range a {
		m[k] = true
	}
	for k := range b {
		m[k] = true
	}
	return m
}

var kindShape = pattern.New(`^[a-z][a-z-]{0,40}$`)

// SaveRecovery writes the uncommitted edits of a workspace as a patch on its
// recorded tip, for git apply, and returns its path; "" when there are none. A
// task that is closed leaves its edits behind this way (HA-034, GT-020).
func (u *Untrusted) SaveRecovery(ctx context.Context, to Recovery, kind string) (path string, err error) {
	save := func() error {
		return u.repo.with(u.ws.scratch(), func(p *private) error {
			s, err := u.snapshot(ctx, p, nil, nil)
			if err != nil {
				return err
			}
			path, err = s.save(ctx, to, kind)
			return err
		})
	}
	err = save()
	if errors.Is(err, fs.ErrPermission) {
		// A directory that its owner took the rights from would keep the workspace
		// of an ended task for ever; the owner is us.
		if err = u.openTree(); err == nil {
			err = save()
		}
	}
	if err != nil {
		return "", fmt.Errorf("save recovery patch: %w", err)
	}
	return path, nil
}

// openTree gives the owner all rights on every directory of the workspace.
func (u *Untrusted) openTree() (err error) {
	root, err := os.OpenRoot(filepath.Dir(u.ws.Tree))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return openUp(root, filepath.Base(u.ws.Tree), 0)
}

// save writes the snapshot as a patch that is on disk when it returns.
func (s *snapshot) save(ctx context.Context, to Recovery, kind string) (path string, err error) {
	if !kindShape.MatchString(kind) {
		return "", fault.New(fault.Invalid, "%q is not a kind of recovery patch", kind)
	}
	if len(s.changed) == 0 {
		return "", nil
	}
	tree, err := s.p.run(ctx, nil, "write-tree")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(to.Dir, 0o700); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(to.Dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	stem := kind + "-" + to.When.UTC().Format("20060102T150405Z")
	for n := 1; ; n++ {
		name := stem + ".patch"
		if n > 1 {
			name = fmt.Sprintf("%s-%d.patch", stem, n)
		}
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) && n < 1000 {
			continue
		} else if err != nil {
			return "", err
		}
		err = s.p.patch(ctx, s.tip, strings.TrimSpace(string(tree)), f)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return "", errors.Join(err, root.Remove(name))
		}
		return filepath.Join(to.Dir, name), nil
	}
}

func (p *private) patch(ctx context.Context, from, to string, w io.Writer) error {
	return p.r.git.stream(ctx, p.invocation(nil, []string{
		"diff-tree", "-r", "-p", "--binary", "--full-index",
		"--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", from, to,
	}), w)
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
