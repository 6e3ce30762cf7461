package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// maxDepth stops a tree that is deeper than any path git can name.
const maxDepth = 512

// scan walks an agent's tree through os.Root and copies into the shadow tree
// what may differ from the recorded tip. Everything it is told about the tree
// (the index, its times) only saves work: a lie hides the liar's own edits.
type scan struct {
	p       *private
	tip     map[string]blob
	index   map[string]indexEntry // tracked paths; nil when the index is unreadable
	written stat                  // of the index file, for racy entries
	force   map[string]bool       // looked at even when ignored
	want    func(string) bool     // nil wants everything
	skipped func(path string)     // told of what is ignored, when not nil

	dirs     map[string]bool // directories that hold a tracked or forced path
	ignore   *ignorer
	count    int
	exec     bool // the executable bit of files means something here
	keep     map[string]bool
	stats    map[string]stat // of the copies made
	embedded []string        // repositories inside the tree, never entered
}

func (s *scan) run(ctx context.Context, root *os.Root) (err error) {
	s.keep, s.stats, s.dirs = map[string]bool{}, map[string]stat{}, map[string]bool{}
	s.exec = s.p.r.core["core.filemode"] != "false"
	mark := func(p string) {
		for d := path.Dir(p); d != "." && !s.dirs[d]; d = path.Dir(d) {
			s.dirs[d] = true
		}
	}
	for p := range s.index {
		mark(p)
	}
	if s.index == nil {
		for p := range s.tip {
			mark(p)
		}
	}
	for p := range s.force {
		mark(p)
	}
	s.ignore = &ignorer{p: s.p}
	defer func() { err = errors.Join(err, s.ignore.close()) }()
	return s.dir(ctx, root, "", 0)
}

func (s *scan) tracked(p string) bool {
	if s.force[p] {
		return true
	}
	if s.index == nil {
		_, ok := s.tip[p]
		return ok
	}
	_, ok := s.index[p]
	return ok
}

type found struct {
	name string
	path string
	fi   fs.FileInfo
}

func (s *scan) dir(ctx context.Context, root *os.Root, rel string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		return fault.New(fault.TooLarge, "%q is nested too deeply", rel)
	}
	names, err := readNames(root)
	if err != nil {
		return fmt.Errorf("read directory %q: %w", rel, err)
	}
	if rel != "" && !s.dirs[rel] && hasFold(names, ".git") {
		s.embedded = append(s.embedded, rel+"/")
		return nil
	}
	if err := s.copyRules(root, rel, names); err != nil {
		return err
	}
	var ask []found
	for _, name := range names {
		if strings.EqualFold(name, ".git") {
			continue
		}
		if s.count++; s.count > maxFiles {
			return fault.New(fault.TooLarge, "the workspace has more than %d files", maxFiles)
		}
		fi, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("look at %q: %w", path.Join(rel, name), err)
		}
		f := found{name, path.Join(rel, name), fi}
		switch {
		case fi.IsDir() && s.gitlink(f.path):
			s.keep[f.path] = true
		case fi.IsDir() && s.dirs[f.path]:
			if err := s.enter(ctx, root, f, depth); err != nil {
				return err
			}
		case !fi.IsDir() && s.tracked(f.path):
			if err := s.file(root, f); err != nil {
				return err
			}
		default:
			ask = append(ask, f)
		}
	}
	return s.untracked(ctx, root, ask, depth)
}

func (s *scan) gitlink(p string) bool {
	if e, ok := s.index[p]; ok {
		return e.Blob.Mode == modeRepo
	}
	return s.tip[p].Mode == modeRepo
}

func (s *scan) untracked(ctx context.Context, root *os.Root, ask []found, depth int) error {
	paths := make([]string, len(ask))
	for i, f := range ask {
		paths[i] = f.path
		if f.fi.IsDir() { // a pattern may be for directories only
			if err := os.MkdirAll(filepath.Join(s.p.shadow, f.path), 0o700); err != nil {
				return err
			}
		}
	}
	ignored, err := s.ignore.ignored(ctx, paths)
	if err != nil {
		return err
	}
	for i, f := range ask {
		switch {
		case ignored[i]:
			if s.skipped != nil {
				s.skipped(f.path)
			}
		case f.fi.IsDir():
			err = s.enter(ctx, root, f, depth)
		default:
			err = s.file(root, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) enter(ctx context.Context, root *os.Root, f found, depth int) (err error) {
	sub, err := root.OpenRoot(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fault.Wrap(fault.Conflict, errors.Join(ErrUnsafeFile, err), "directory %q cannot be read", f.path).
			WithNext("Make it readable, or delete it.")
	}
	defer func() { err = errors.Join(err, sub.Close()) }()
	is, err := sub.Stat(".")
	if err != nil {
		return err
	}
	if !os.SameFile(is, f.fi) {
		return unsafe(f.path, "it was replaced while it was opened")
	}
	return s.dir(ctx, sub, f.path, depth+1)
}

// file keeps an unchanged file and copies any other one.
func (s *scan) file(root *os.Root, f found) error {
	mode := f.fi.Mode()
	if !mode.IsRegular() && mode&fs.ModeSymlink == 0 {
		return nil // a pipe, socket or device is nothing git stores
	}
	if s.unchanged(f) {
		s.keep[f.path] = true
		return nil
	}
	if s.want != nil && !s.want(f.path) {
		return nil
	}
	to := filepath.Join(s.p.shadow, f.path)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if mode&fs.ModeSymlink != 0 {
		target, err := root.Readlink(f.name)
		if err != nil {
			return fmt.Errorf("read link %q: %w", f.path, err)
		}
		s.stats[f.path] = statOf(f.fi)
		return os.Symlink(target, to)
	}
	fi, err := copyRegular(root, f.name, to, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("copy %q: %w", f.path, err)
	}
	s.stats[f.path] = statOf(fi)
	return nil
}

// unchanged reports whether the index and the recorded tip agree on f and its
// time says that nobody wrote it since. A file as young as the index is looked at.
func (s *scan) unchanged(f found) bool {
	e, ok := s.index[f.path]
	if !ok || e.Stage != 0 || e.Intent || e.Blob != s.tip[f.path] {
		return false
	}
	is := statOf(f.fi)
	switch {
	case is.Size != e.Stat.Size || is.MSec != e.Stat.MSec,
		e.Stat.MNsec != 0 && is.MNsec != e.Stat.MNsec,
		e.Stat.Ino != 0 && is.Ino != e.Stat.Ino:
		return false
	case is.MSec > s.written.MSec, is.MSec == s.written.MSec && (e.Stat.MNsec == 0 || is.MNsec >= s.written.MNsec):
		return false
	}
	link := f.fi.Mode()&fs.ModeSymlink != 0
	if link != (e.Blob.Mode == modeLink) {
		return false
	}
	return link || !s.exec || (f.fi.Mode()&0o100 != 0) == (e.Blob.Mode == modeExec)
}

// copyRules brings the files that decide about ignoring and line endings into
// the shadow tree. As in git, a link in their place counts as absent.
func (s *scan) copyRules(root *os.Root, rel string, names []string) error {
	for _, name := range []string{".gitignore", ".gitattributes"} {
		i := sort.SearchStrings(names, name)
		if i == len(names) || names[i] != name {
			continue
		}
		to := filepath.Join(s.p.shadow, rel, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if fi, err := root.Lstat(name); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		if _, err := copyRegular(root, name, to, maxRules); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("copy %q: %w", path.Join(rel, name), err)
		}
	}
	return nil
}

func copyRegular(root *os.Root, name, to string, max int64) (_ fs.FileInfo, err error) {
	f, fi, err := openRegular(root, name, max)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	mode := fs.FileMode(0o600)
	if fi.Mode()&0o100 != 0 {
		mode = 0o700
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(out, io.LimitReader(f, max))
	return fi, errors.Join(err, out.Close())
}

func readNames(root *os.Root) (names []string, err error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	names, err = d.Readdirnames(-1)
	sort.Strings(names)
	return names, err
}

func hasFold(names []string, want string) bool {
	for _, n := range names {
		if strings.EqualFold(n, want) {
			return true
		}
	}
	return false
}
