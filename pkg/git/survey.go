package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Entry is a file of a commit.
type Entry struct {
	ID        string
	Exec      bool
	Link      bool
	Submodule bool
}

// Survey is what a checkpoint has to know of a workspace: the files of the
// recorded tip, and which paths git ignores.
type Survey struct {
	Tip     string
	Files   map[string]Entry
	Ignored map[string]bool // files, and directories with all below them
}

// Survey looks at the workspace without reading a file's content.
func (u *Untrusted) Survey(ctx context.Context) (s Survey, err error) {
	s = Survey{Tip: u.tip, Ignored: map[string]bool{}}
	err = u.repo.with(u.ws.scratch(), func(p *private) error {
		tree, err := p.listTree(ctx, u.tip)
		if err != nil {
			return err
		}
		s.Files = entries(tree)
		index, _, err := u.readIndex()
		if err != nil && !errors.Is(err, ErrIndex) {
			return err
		}
		sc := &scan{
			p: p, tip: tree, want: func(string) bool { return false },
			skipped: func(path string) { s.Ignored[path] = true },
		}
		if index != nil {
			sc.index = make(map[string]indexEntry, len(index))
			for _, e := range index {
				sc.index[e.Path] = e
			}
		}
		root, err := os.OpenRoot(u.ws.Tree)
		if err != nil {
			return fmt.Errorf("open workspace: %w", err)
		}
		return errors.Join(sc.run(ctx, root), root.Close())
	})
	if err != nil {
		return Survey{}, fmt.Errorf("survey workspace: %w", err)
	}
	return s, nil
}

func entries(tree map[string]blob) map[string]Entry {
	all := make(map[string]Entry, len(tree))
	for path, b := range tree {
		all[path] = Entry{ID: b.ID, Exec: b.Mode == modeExec, Link: b.Mode == modeLink, Submodule: b.Mode == modeRepo}
	}
	return all
}

// Files lists the files of a commit.
func (r *Repo) Files(ctx context.Context, commit string) (all map[string]Entry, err error) {
	if err := shas(commit); err != nil {
		return nil, err
	}
	err = r.with(r.scratch(), func(p *private) error {
		tree, err := p.listTree(ctx, commit)
		all = entries(tree)
		return err
	})
	return all, err
}

// Content writes a blob as it is in the repository, converted by nothing.
func (r *Repo) Content(ctx context.Context, id string, w io.Writer) error {
	if err := shas(id); err != nil {
		return err
	}
	return r.with(r.scratch(), func(p *private) error {
		if err := r.git.stream(ctx, p.invocation(nil, []string{"cat-file", "blob", id}), w); err != nil {
			return fmt.Errorf("read blob %s: %w", short(id), err)
		}
		return nil
	})
}

// Has reports whether a commit is in the repository.
func (r *Repo) Has(ctx context.Context, commit string) bool {
	if shas(commit) != nil {
		return false
	}
	return r.with(r.scratch(), func(p *private) error {
		_, err := p.run(ctx, nil, "cat-file", "-e", commit+"^{commit}")
		return err
	}) == nil
}

// PatchOf keeps as a recovery patch what fill makes of a checkout of base
// (GT-020): edits that belong to a commit the branch has left behind. It returns
// the patch's path, "" when there is no difference.
func (r *Repo) PatchOf(ctx context.Context, base string, fill func(tree string) error, to Recovery, kind string) (path string, err error) {
	if err := shas(base); err != nil {
		return "", err
	}
	if err := os.MkdirAll(r.scratch(), 0o700); err != nil {
		return "", fmt.Errorf("make scratch directory: %w", err)
	}
	dir, err := os.MkdirTemp(r.scratch(), "patch-")
	if err != nil {
		return "", fmt.Errorf("make scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, removeAll(dir)) }()
	ws := Workspace{State: dir, Tree: filepath.Join(dir, "tree"), GitDir: filepath.Join(dir, "git")}
	for _, d := range []string{ws.Tree, ws.GitDir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return "", fmt.Errorf("make scratch directory: %w", err)
		}
	}
	if err := r.checkOut(ctx, ws, base); err != nil {
		return "", err
	}
	if err := fill(ws.Tree); err != nil {
		return "", err
	}
	// The index of the checkout would say what was there before; without one,
	// every file is looked at.
	if err := os.Remove(filepath.Join(ws.GitDir, "index")); err != nil {
		return "", err
	}
	u := &Untrusted{repo: r, ws: ws, tip: base, stats: map[string]stat{}}
	return u.SaveRecovery(ctx, to, kind)
}
