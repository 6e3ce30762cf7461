package checkpoint

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's name of an object, checked against one from git
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
)

// scan walks one part.
type scan struct {
	w     *writer
	saver *Saver
	part  Part
	m     *Manifest
	next  map[string]seen

	out   Saved
	have  map[string]bool // paths of the base that are there
	count int
	total int64
	buf   []byte
}

func (s *scan) run(ctx context.Context) (Saved, error) {
	s.have = map[string]bool{}
	root, err := os.OpenRoot(s.part.Dir)
	if errors.Is(err, fs.ErrNotExist) && s.part.Base == nil {
		return s.out, nil // nothing was made there
	}
	if err != nil {
		return s.out, err
	}
	defer root.Close()
	if _, err := s.dir(ctx, root, "", 0); err != nil {
		return s.out, err
	}
	for p := range s.part.Base {
		if !s.have[p] {
			s.out.Gone = append(s.out.Gone, Path(p))
		}
	}
	slices.Sort(s.out.Gone)
	slices.SortFunc(s.out.Entries, func(a, b Entry) int {
		switch {
		case a.Path < b.Path:
			return -1
		case a.Path > b.Path:
			return 1
		}
		return 0
	})
	return s.out, nil
}

// left notes a path that is not saved.
func (s *scan) left(p string) {
	if len(s.m.Left) < maxLeft {
		s.m.Left = append(s.m.Left, Path(s.part.Name+":"+p))
	}
}

// dir walks a directory and returns how many of its entries a restore makes.
func (s *scan) dir(ctx context.Context, root *os.Root, rel string, depth int) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	d, err := root.Open(".")
	if err != nil {
		s.left(rel + "/")
		return 1, nil //nolint:nilerr // what cannot be read is left out and named
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return 0, fmt.Errorf("read directory %q: %w", rel, err)
	}
	slices.Sort(names)
	for _, name := range names {
		p := path.Join(rel, name)
		fi, err := root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			s.left(p)
			continue
		}
		if s.part.Skip != nil && s.part.Skip(p, fi.IsDir()) {
			continue
		}
		if s.count++; s.count > MaxEntries {
			s.left(p)
			return n, nil
		}
		made, err := s.entry(ctx, root, name, p, fi, depth)
		if err != nil {
			return n, err
		}
		if made {
			n++
		}
	}
	return n, nil
}

// entry saves one path. made says that a restore has something there.
func (s *scan) entry(ctx context.Context, root *os.Root, name, p string, fi fs.FileInfo, depth int) (made bool, err error) {
	perm := uint32(fi.Mode().Perm())
	base, inBase := s.part.Base[p]
	switch {
	case fi.IsDir():
		if depth >= maxDepth {
			s.left(p + "/")
			return false, nil
		}
		sub, err := root.OpenRoot(name)
		if err != nil {
			s.left(p + "/")
			sub = nil
		}
		n := 0
		if sub != nil {
			defer sub.Close()
			if is, err := sub.Stat("."); err != nil || !os.SameFile(is, fi) {
				s.left(p + "/") // it was replaced while it was opened
			} else if n, err = s.dir(ctx, sub, p, depth+1); err != nil {
				return false, err
			}
		}
		s.have[p] = inBase && base.Dir
		if n == 0 && !s.have[p] || perm != 0o755 {
			s.out.Entries = append(s.out.Entries, Entry{Path: Path(p), Kind: Dir, Mode: perm})
		}
		return true, nil
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		if err != nil {
			s.left(p)
			return false, nil
		}
		s.have[p] = inBase && base.Link
		if s.have[p] && gitID([]byte(target), len(base.ID)) == base.ID {
			return true, nil
		}
		s.have[p] = false
		s.out.Entries = append(s.out.Entries, Entry{Path: Path(p), Kind: Link, Target: Path(target)})
		return true, nil
	case fi.Mode().IsRegular():
		return s.file(ctx, root, name, p, fi)
	}
	s.left(p)
	return false, nil
}

func (s *scan) file(ctx context.Context, root *os.Root, name, p string, fi fs.FileInfo) (made bool, err error) {
	perm := uint32(fi.Mode().Perm())
	base, inBase := s.part.Base[p]
	inBase = inBase && !base.Link && !base.Dir
	at := s.part.Name + "\x00" + p
	was, known := s.saver.seen[at]
	is := statOf(fi)
	if !known || was.stat != is {
		was = seen{stat: is}
	}
	if fi.Size() > MaxFile {
		s.left(p)
		s.have[p] = inBase // an older content is better than none
		return false, nil
	}
	keep := is.change != 0 && is.change < s.saver.settled
	if inBase && was.blob == "" {
		sum, same, err := s.gitHash(root, name, fi, len(base.ID))
		if err != nil {
			s.left(p)
			s.have[p] = inBase
			return false, nil //nolint:nilerr // what cannot be read is left out and named
		}
		was.blob, keep = sum, keep && same
	}
	if inBase && was.blob == base.ID {
		s.have[p] = true
		if keep {
			s.next[at] = was
		}
		if want := gitPerm(base.Exec); perm != want {
			s.out.Entries = append(s.out.Entries, Entry{Path: Path(p), Kind: File, Mode: perm, Size: fi.Size(), Base: true})
		}
		return true, nil
	}
	size := fi.Size()
	if s.total+size > MaxTotal {
		s.left(p)
		s.have[p] = inBase
		return false, nil
	}
	if !was.read || !s.stored(was.chunks) {
		var same bool
		was.chunks, size, same, err = s.chunks(ctx, root, name, fi)
		if errors.Is(err, errUnreadable) {
			s.left(p)
			s.have[p] = inBase
			return false, nil
		}
		if err != nil {
			return false, err
		}
		was.read, keep = true, keep && same
	}
	if keep {
		s.next[at] = was
	}
	s.total += size
	s.out.Entries = append(s.out.Entries, Entry{Path: Path(p), Kind: File, Mode: perm, Size: size, Chunks: was.chunks})
	s.have[p] = inBase // it is there, only other
	return true, nil
}

func (s *scan) stored(chunks []string) bool {
	for _, sum := range chunks {
		if _, ok := s.saver.known[sum]; !ok {
			return false
		}
	}
	return true
}

var errUnreadable = errors.New("checkpoint: unreadable")

// open opens the very file that was looked at, without following or waiting.
func open(root *os.Root, name string, fi fs.FileInfo) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errUnreadable
	}
	if is, err := f.Stat(); err != nil || !is.Mode().IsRegular() || !os.SameFile(is, fi) {
		f.Close()
		return nil, errUnreadable
	}
	return f, nil
}

// unmoved reports whether a file is still as it was when it was looked at, so
// that what was read of it can be remembered.
func unmoved(f *os.File, fi fs.FileInfo) bool {
	is, err := f.Stat()
	return err == nil && statOf(is) == statOf(fi)
}

func (s *scan) chunks(ctx context.Context, root *os.Root, name string, fi fs.FileInfo) (sums []string, size int64, same bool, err error) {
	f, err := open(root, name, fi)
	if err != nil {
		return nil, 0, false, err
	}
	defer f.Close()
	if s.buf == nil {
		s.buf = make([]byte, chunkSize)
	}
	in := io.LimitReader(f, MaxFile)
	for {
		n, err := io.ReadFull(in, s.buf)
		if n > 0 {
			sum := digest(s.buf[:n])
			if err := s.w.add(ctx, sum, s.buf[:n]); err != nil {
				return nil, 0, false, err
			}
			sums = append(sums, sum)
			size += int64(n)
			s.w.st.Read += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, 0, false, errUnreadable
		}
		if err := ctx.Err(); err != nil {
			return nil, 0, false, err
		}
	}
	return sums, size, unmoved(f, fi), nil
}

// gitHash is the object id that git would give the raw content.
func (s *scan) gitHash(root *os.Root, name string, fi fs.FileInfo, idLen int) (sum string, same bool, err error) {
	f, err := open(root, name, fi)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	h := gitHasher(fi.Size(), idLen)
	n, err := io.Copy(h, io.LimitReader(f, MaxFile))
	if err != nil {
		return "", false, errUnreadable
	}
	s.w.st.Read += n
	return hex.EncodeToString(h.Sum(nil)), unmoved(f, fi), nil
}

func gitHasher(size int64, idLen int) hash.Hash {
	h := sha1.New()
	if idLen == 2*sha256.Size {
		h = sha256.New()
	}
	h.Write([]byte("blob " + strconv.FormatInt(size, 10) + "\x00"))
	return h
}

func gitID(b []byte, idLen int) string {
	h := gitHasher(int64(len(b)), idLen)
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}

// gitPerm is the mode that a checkout gives a file.
func gitPerm(exec bool) uint32 {
	if exec {
		return 0o755
	}
	return 0o644
}
