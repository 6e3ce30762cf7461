package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// person runs git in a person's own checkout, with their configuration but
// nothing in it that starts a program by itself: their line endings and filters
// are what makes the files theirs. index "" is the checkout's own.
func (r *Repo) person(ctx context.Context, at Checkout, index string, in io.Reader, args ...string) ([]byte, error) {
	env := append(append([]string(nil), r.git.owner...), "GIT_DIR="+at.GitDir, "GIT_WORK_TREE="+at.Path)
	if index != "" {
		env = append(env, "GIT_INDEX_FILE="+index)
	}
	out, err := r.git.run(ctx, invocation{dir: at.Path, env: env, in: in, args: quiet(args...)})
	return out, filtered(at, err)
}

// pathState is what a checkout has at one path that a landing touches.
type pathState struct {
	change
	Index blob // what is staged
	Work  blob // what the file would be as a blob; zero is missing
	Dir   bool // a directory is there
	Odd   bool // something git cannot store is there
}

// free reports whether a landing loses nothing here: both sides hold the old or
// the new content, and the file is not behind what is staged.
func (s pathState) free() bool {
	known := func(b blob) bool { return b == s.Old || b == s.New }
	return known(s.Index) && known(s.Work) && (s.Index != s.New || s.Work == s.New || s.Old == s.New)
}

// Overlap lists the paths where a checkout has edits, staged or not, or files
// git does not know, that landing newTree over oldHead would overwrite. Edits
// elsewhere are no overlap (AP-013).
func (r *Repo) Overlap(ctx context.Context, at Checkout, oldHead, newTree string) (files []string, err error) {
	err = r.with(r.scratch(), func(p *private) error {
		states, err := r.states(ctx, p, at, oldHead, newTree)
		if err != nil {
			return err
		}
		files = overlapping(at.Path, states)
		return nil
	})
	return files, err
}

func overlapping(top string, states []pathState) []string {
	touched := map[string]pathState{}
	for _, s := range states {
		touched[s.Path] = s
	}
	bad := map[string]bool{}
	for _, s := range states {
		if s.Old.Mode == modeRepo || s.New.Mode == modeRepo {
			continue
		}
		if s.Odd || !s.Dir && !s.free() || s.Dir && s.Old.Mode != 0 {
			bad[s.Path] = true
		}
		if s.New.Mode == 0 {
			continue
		}
		if s.Dir {
			for _, f := range filesBelow(top, s.Path) {
				if t, ours := touched[f]; !ours || t.New.Mode != 0 {
					bad[f] = true
				}
			}
		}
		if d := blocker(top, s.Path); d != "" {
			if t, ours := touched[d]; !ours || t.New.Mode != 0 {
				bad[d] = true
			}
		}
	}
	return sortedKeys(bad)
}

// blocker returns the first part of a path that exists and is no directory, so
// that nothing can be below it.
func blocker(top, name string) string {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if fi, err := os.Lstat(filepath.Join(top, filepath.FromSlash(name[:i]))); err == nil && !fi.IsDir() {
			return name[:i]
		}
	}
	return ""
}

// filesBelow lists what a directory holds, relative to top.
func filesBelow(top, dir string) []string {
	var all []string
	base := filepath.Join(top, filepath.FromSlash(dir))
	err := filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err == nil {
			all = append(all, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		return append(all, dir+"/") // what cannot be read is in the way
	}
	return all
}

// states reads index and files at every path that differs between old and next.
func (r *Repo) states(ctx context.Context, p *private, at Checkout, old, next string) ([]pathState, error) {
	changes, err := p.diffTrees(ctx, old, next)
	if err != nil {
		return nil, err
	}
	index := filepath.Join(p.dir, "theirs")
	if err := copyIndex(at, index); err != nil {
		return nil, err
	}
	staged, err := r.entriesOf(ctx, at, index)
	if err != nil {
		return nil, err
	}
	states := make([]pathState, len(changes))
	read := map[string]bool{}
	var ask bytes.Buffer
	for i, c := range changes {
		s := pathState{change: c, Index: staged[c.Path]}
		fi, err := os.Lstat(filepath.Join(at.Path, filepath.FromSlash(c.Path)))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !notDir(err):
			return nil, fmt.Errorf("look at %q: %w", c.Path, err)
		case err != nil, blocker(at.Path, c.Path) != "":
			// Nothing is there.
		case fi.IsDir():
			s.Dir = c.New.Mode != 0 // where a file goes away, a directory is nobody's obstacle
		case !fi.Mode().IsRegular() && fi.Mode()&fs.ModeSymlink == 0:
			s.Odd = true
		default:
			read[c.Path] = true
			ask.WriteString(c.Path)
			ask.WriteByte(0)
		}
		states[i] = s
	}
	if ask.Len() == 0 {
		return states, nil
	}
	// What the files would be as blobs, with the person's conversions; no
	// object is stored for them.
	if _, err := r.person(ctx, at, index, &ask, "update-index", "--info-only", "--add", "--replace", "-z", "--stdin"); err != nil {
		return nil, fmt.Errorf("read checkout %s: %w", at.Path, err)
	}
	work, err := r.entriesOf(ctx, at, index)
	if err != nil {
		return nil, err
	}
	for i, s := range states {
		if read[s.Path] {
			states[i].Work = work[s.Path]
		}
	}
	return states, nil
}

// entriesOf reads an index. One with an unresolved merge is refused: there is no
// way to land under it.
func (r *Repo) entriesOf(ctx context.Context, at Checkout, index string) (map[string]blob, error) {
	out, err := r.person(ctx, at, index, nil, "ls-files", "-s", "-z")
	if err != nil {
		return nil, fmt.Errorf("read index of %s: %w", at.Path, err)
	}
	all := map[string]blob{}
	for _, rec := range splitZ(out) {
		e, err := parseStage(rec)
		if err != nil {
			return nil, err
		}
		if e.Stage != 0 {
			return nil, fault.Wrap(fault.Conflict, ErrUnmerged, "a merge in %s is not resolved: %q", at.Path, e.Path).
				WithNext("Conclude it, or run git merge --abort there; then accept again.")
		}
		all[e.Path] = e.Blob
	}
	return all, nil
}

// copyIndex copies a checkout's index; a missing one is an empty index.
func copyIndex(at Checkout, to string) error {
	b, err := os.ReadFile(filepath.Join(at.GitDir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return ignoreMissing(os.Remove(to))
	} else if err != nil {
		return fmt.Errorf("read index of %s: %w", at.Path, err)
	}
	return os.WriteFile(to, b, 0o600)
}

func overlapFault(branch string, at Checkout, files []string) error {
	o := &Overlap{Path: at.Path, Files: files}
	return fault.Wrap(fault.Conflict, o, "%s is checked out at %s with edits to files this change touches: %s", branch, at.Path, list(files)).
		WithNext("Commit or set aside those files, accept again.").
		WithDetail("path", at.Path).WithDetail("files", strings.Join(files, "\n"))
}
