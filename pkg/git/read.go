package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Sizes above which a file in a workspace is refused.
const (
	maxFile  = 512 << 20 // content
	maxRules = 4 << 20   // .gitignore, .gitattributes
	maxMeta  = 64 << 10  // HEAD, MERGE_HEAD and the like
	maxIndex = 256 << 20
	maxFiles = 1_000_000 // entries of one scan
)

// openRegular opens a file in an agent-writable place (GT-027): beneath root,
// a regular file and no link, never waiting for a writer, at most max bytes.
func openRegular(root *os.Root, name string, max int64) (*os.File, fs.FileInfo, error) {
	was, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !was.Mode().IsRegular() {
		return nil, nil, unsafe(name, "it is not a regular file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	switch {
	case err != nil:
	case !fi.Mode().IsRegular() || !os.SameFile(was, fi):
		err = unsafe(name, "it was replaced while it was opened")
	case fi.Size() > max:
		err = fault.Wrap(fault.TooLarge, ErrUnsafeFile, "%q has %d bytes; the limit is %d", name, fi.Size(), max)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, fi, nil
}

func unsafe(name, why string) error {
	return fault.Wrap(fault.Conflict, ErrUnsafeFile, "%q cannot be read: %s", name, why)
}

// readRegular returns the content of a file opened by openRegular. A file that
// grows meanwhile is cut off at max.
func readRegular(root *os.Root, name string, max int64) (b []byte, fi fs.FileInfo, err error) {
	f, fi, err := openRegular(root, name, max)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err = io.ReadAll(io.LimitReader(f, max))
	if err != nil {
		return nil, nil, fmt.Errorf("read %q: %w", name, err)
	}
	return b, fi, nil
}

// replaceFile writes a file in an agent-writable place by a rename, so that no
// link is followed and a crash leaves the old file or the new one.
func replaceFile(root *os.Root, name, temp string, mode fs.FileMode, from io.Reader) error {
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(root.Remove(temp)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
