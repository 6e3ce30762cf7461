package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Checkout is a work tree that has a branch checked out.
type Checkout struct {
	Path   string // the files
	GitDir string // its index and HEAD
}

// Workspace reports whether CreateWorkspace made the checkout, so that an agent
// can write its files.
func (c Checkout) Workspace() bool {
	text, err := readMeta(c.GitDir, "locked")
	return err == nil && text == strings.TrimSpace(lockedText) && strings.HasPrefix(filepath.Base(c.GitDir), "lazy-")
}

// CheckedOut finds the work tree that has a branch checked out. It reads the
// worktrees' HEAD files itself: some of them belong to agents, and git would
// wait for ever on one that was made a pipe.
func (r *Repo) CheckedOut(ctx context.Context, branch string) (Checkout, bool, error) {
	if err := errors.Join(ctx.Err(), existing(branch)); err != nil {
		return Checkout{}, false, err
	}
	want := "ref: refs/heads/" + branch
	if head, err := readMeta(r.CommonDir, "HEAD"); err != nil {
		return Checkout{}, false, fmt.Errorf("find checkout of %s: %w", branch, err)
	} else if head == want {
		if top, ok := r.mainTop(); ok {
			return Checkout{Path: top, GitDir: r.CommonDir}, true, nil
		}
	}
	dir := filepath.Join(r.CommonDir, "worktrees")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Checkout{}, false, fmt.Errorf("find checkout of %s: %w", branch, err)
	}
	for _, e := range entries {
		gitDir := filepath.Join(dir, e.Name())
		if head, err := readMeta(gitDir, "HEAD"); err != nil || head != want {
			continue // unreadable or elsewhere: not a checkout of this branch
		}
		link, err := readMeta(gitDir, "gitdir")
		if err != nil || filepath.Base(link) != ".git" {
			continue
		}
		top := filepath.Dir(link)
		if fi, err := os.Lstat(link); err != nil || fi.IsDir() {
			continue // the files are gone; git prunes such an entry
		}
		return Checkout{Path: top, GitDir: gitDir}, true, nil
	}
	return Checkout{}, false, nil
}

// mainTop is the work tree of the main checkout.
func (r *Repo) mainTop() (string, bool) {
	if filepath.Base(r.CommonDir) == ".git" {
		return filepath.Dir(r.CommonDir), true
	}
	// A git directory elsewhere (git init --separate-git-dir): only the
	// checkout it was opened in is known to belong to it.
	if fi, err := os.Lstat(filepath.Join(r.Root, ".git")); err == nil && !fi.IsDir() {
		if text, err := readMeta(r.Root, ".git"); err == nil && strings.TrimPrefix(text, "gitdir: ") == r.CommonDir {
			return r.Root, true
		}
	}
	return "", false
}

func readMeta(dir, name string) (_ string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	b, _, err := readRegular(root, name, maxMeta)
	return strings.TrimSpace(string(b)), err
}
