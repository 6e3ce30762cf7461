package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Target is where a part is restored: a directory in which its base is laid out
// and nothing else, and in which nobody writes yet.
type Target struct {
	Dir  string
	Base map[string]Blob
	// Raw writes the content of a base's file as it is in the commit. A checkout
	// may have converted it; where it did, that is put right.
	Raw func(ctx context.Context, id string, w io.Writer) error
	// Drop names files that laying out made and that are there afterwards only if
	// they were saved.
	Drop []string
}

// Restore lays the parts of a manifest out. All that it stores is fetched and
// checked in scratch, a directory that only the supervisor sees, before anything
// is written: a damaged checkpoint changes nothing (UW-012).
func Restore(ctx context.Context, d Depot, c Cipher, m Manifest, scratch string, into map[string]Target) (err error) {
	packs, err := fetch(ctx, d, c, m, scratch)
	defer func() { err = errors.Join(err, packs.close()) }()
	if err != nil {
		return err
	}
	for name, saved := range m.Parts {
		to, ok := into[name]
		if !ok {
			continue
		}
		if err := check(saved); err != nil {
			return err
		}
		if err := os.MkdirAll(to.Dir, 0o755); err != nil {
			return fmt.Errorf("restore %s: %w", name, err)
		}
		root, err := os.OpenRoot(to.Dir)
		if err != nil {
			return fmt.Errorf("restore %s: %w", name, err)
		}
		l := &layer{root: root, packs: packs, m: m, saved: saved, to: to}
		if err := errors.Join(l.run(ctx), root.Close()); err != nil {
			return fmt.Errorf("restore %s: %w", name, err)
		}
	}
	return nil
}

// check refuses names that no scan makes.
func check(s Saved) error {
	for _, e := range s.Entries {
		if !local(e.Path) {
			return fmt.Errorf("%w: %q is no path", ErrDamaged, e.Path)
		}
	}
	for _, p := range s.Gone {
		if !local(p) {
			return fmt.Errorf("%w: %q is no path", ErrDamaged, p)
		}
	}
	return nil
}

func local(p Path) bool {
	return filepath.IsLocal(string(p)) && path.Clean(string(p)) == string(p) && p != "." && !strings.Contains(string(p), "\x00")
}

// packs are the decrypted objects of a checkpoint, as files.
type packs struct {
	dir   string
	files []*os.File
}

func (p *packs) close() error {
	if p == nil {
		return nil
	}
	var err error
	for _, f := range p.files {
		err = errors.Join(err, f.Close())
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

// fetch brings every object here and checks every chunk.
func fetch(ctx context.Context, d Depot, c Cipher, m Manifest, scratch string) (*packs, error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, fmt.Errorf("fetch checkpoint: %w", err)
	}
	dir, err := os.MkdirTemp(scratch, "checkpoint-")
	if err != nil {
		return nil, fmt.Errorf("fetch checkpoint: %w", err)
	}
	p := &packs{dir: dir}
	within := make([][]string, len(m.Objects))
	for sum, at := range m.Chunks {
		if at.Object < 0 || at.Object >= len(m.Objects) {
			return p, fmt.Errorf("%w: a chunk is in no object", ErrDamaged)
		}
		within[at.Object] = append(within[at.Object], sum)
	}
	for i, name := range m.Objects {
		sealed, err := d.Get(ctx, name)
		if err != nil {
			return p, fmt.Errorf("fetch %s: %w", name, err)
		}
		b, err := c.Open(name, sealed)
		if err != nil {
			return p, err
		}
		for _, sum := range within[i] {
			at := m.Chunks[sum]
			if at.At < 0 || at.Size < 0 || at.At+at.Size > int64(len(b)) || digest(b[at.At:at.At+at.Size]) != sum {
				return p, fmt.Errorf("%w: %s fails its checksum", ErrDamaged, name)
			}
		}
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(i)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return p, fmt.Errorf("fetch checkpoint: %w", err)
		}
		p.files = append(p.files, f)
		if _, err := f.Write(b); err != nil {
			return p, fmt.Errorf("fetch checkpoint: %w", err)
		}
	}
	for _, s := range m.Parts {
		for _, e := range s.Entries {
			for _, sum := range e.Chunks {
				if _, ok := m.Chunks[sum]; !ok {
					return p, fmt.Errorf("%w: a chunk of %q is missing", ErrDamaged, e.Path)
				}
			}
		}
	}
	return p, nil
}

// layer writes one part over its base.
type layer struct {
	root  *os.Root
	packs *packs
	m     Manifest
	saved Saved
	to    Target
}

func (l *layer) run(ctx context.Context) error {
	if err := l.clear(); err != nil {
		return err
	}
	modes := map[string]uint32{} // of directories, set at the end
	named := map[string]bool{}   // paths whose content was saved
	perms := map[string]uint32{} // of files whose mode alone was saved
	for _, e := range l.saved.Entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := string(e.Path)
		named[p] = !e.Base
		if err := l.parents(p, modes); err != nil {
			return err
		}
		var err error
		switch e.Kind {
		case Dir:
			modes[p] = e.Mode & 0o777
			if err = l.root.Mkdir(p, 0o755); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		case Link:
			if err = l.root.Remove(p); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			if err == nil {
				err = l.root.Symlink(string(e.Target), p)
			}
		case File:
			if e.Base {
				perms[p] = e.Mode & 0o777
			} else {
				err = l.file(e)
			}
		default:
			err = fmt.Errorf("%w: %q is of kind %q", ErrDamaged, p, e.Kind)
		}
		if err != nil {
			return err
		}
	}
	if err := l.base(ctx, named, perms, modes); err != nil {
		return err
	}
	deepest := slices.Sorted(maps.Keys(modes))
	for _, p := range slices.Backward(deepest) {
		if err := l.root.Chmod(p, fs.FileMode(modes[p])); err != nil {
			return err
		}
	}
	return nil
}

// clear removes what is gone, with directories that are empty by that.
func (l *layer) clear() error {
	for _, p := range l.to.Drop {
		if err := l.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, p := range l.saved.Gone {
		if err := l.root.Remove(string(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for d := path.Dir(string(p)); d != "."; d = path.Dir(d) {
			if l.root.Remove(d) != nil {
				break
			}
		}
	}
	return nil
}

// parents makes the directories above p and notes that their mode is the usual
// one, unless an entry says otherwise.
func (l *layer) parents(p string, modes map[string]uint32) error {
	dir := path.Dir(p)
	if dir == "." {
		return nil
	}
	for d := dir; d != "."; d = path.Dir(d) {
		if _, ok := modes[d]; !ok {
			modes[d] = 0o755
		}
	}
	return l.root.MkdirAll(dir, 0o755)
}

func (l *layer) file(e Entry) error {
	p := string(e.Path)
	if err := l.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := l.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, sum := range e.Chunks {
		at := l.m.Chunks[sum]
		if _, err = io.Copy(f, io.NewSectionReader(l.packs.files[at.Object], at.At, at.Size)); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Chmod(fs.FileMode(e.Mode & 0o777))
	}
	return errors.Join(err, f.Close())
}

// base puts right what a checkout made other than the commit has it, since a
// saved file that equals the commit was not stored.
func (l *layer) base(ctx context.Context, named map[string]bool, perms, modes map[string]uint32) error {
	gone := map[string]bool{}
	for _, p := range l.saved.Gone {
		gone[string(p)] = true
	}
	for p, b := range l.to.Base {
		if named[p] || gone[p] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.parents(p, modes); err != nil {
			return err
		}
		if b.Dir {
			if err := l.root.Mkdir(p, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			continue
		}
		perm, ok := perms[p]
		if !ok {
			perm = gitPerm(b.Exec)
		}
		if err := l.baseFile(ctx, p, b, fs.FileMode(perm)); err != nil {
			return fmt.Errorf("%q: %w", p, err)
		}
	}
	return nil
}

func (l *layer) baseFile(ctx context.Context, p string, b Blob, perm fs.FileMode) error {
	if b.Link {
		if at, err := l.root.Readlink(p); err == nil && gitID([]byte(at), len(b.ID)) == b.ID {
			return nil
		}
	} else if same, err := l.same(p, b); err != nil {
		return err
	} else if same {
		return l.root.Chmod(p, perm)
	}
	if l.to.Raw == nil {
		return errors.New("the checkout differs from the commit")
	}
	if err := l.root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if b.Link {
		var text strings.Builder
		if err := l.to.Raw(ctx, b.ID, &text); err != nil {
			return err
		}
		return l.root.Symlink(text.String(), p)
	}
	f, err := l.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(l.to.Raw(ctx, b.ID, f), f.Chmod(perm), f.Close())
}

// same compares a file of the checkout with the commit's.
func (l *layer) same(p string, b Blob) (bool, error) {
	f, err := l.root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, nil // it is not there, or no file: it is made anew
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return false, err
	}
	h := gitHasher(fi.Size(), len(b.ID))
	if _, err := io.Copy(h, f); err != nil {
		return false, err
	}
	return fmt.Sprintf("%x", h.Sum(nil)) == b.ID, nil
}
