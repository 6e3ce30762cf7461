package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// copyFiles copies files that are not in the repository, such as a local
// configuration, from the person's checkout. A file that is there already is left
// alone, and one that is missing is only said to be. Both sides are opened
// beneath their root, so that no link leads out; and what is a link in the
// checkout, or lies behind one, is not copied: whoever wrote the repository could
// have chosen what it leads to, git's own configuration for one (GT-027).
func (r *run) copyFiles(ctx context.Context) error {
	if len(r.cmd.Copy) == 0 || r.cmd.Source == "" {
		return nil
	}
	from, err := os.OpenRoot(r.cmd.Source)
	if err != nil {
		return fmt.Errorf("open checkout: %w", err)
	}
	defer from.Close()
	to, err := os.OpenRoot(r.cmd.Tree)
	if err != nil {
		return fmt.Errorf("open workspace: %w", err)
	}
	defer to.Close()
	for _, name := range r.cmd.Copy {
		name = filepath.ToSlash(filepath.Clean(name))
		if why := linked(from, name); why != "" {
			r.setup += fmt.Sprintf("lazy: %s was not copied: %s\n", name, why)
			continue
		}
		fi, err := from.Lstat(name)
		if err != nil {
			r.log.Warn("a file to copy is not in the checkout", "path", name)
			continue
		}
		if !fi.IsDir() {
			if err := copyFile(from, to, name); err != nil {
				return err
			}
			continue
		}
		err = fs.WalkDir(from.FS(), name, func(p string, d fs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			if d.Type().IsRegular() {
				return copyFile(from, to, p)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return nil
}

// linked says why a path of the checkout is not what it is called; "" when it is,
// or is not there.
func linked(from *os.Root, name string) string {
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return "it is git's own"
		}
		at = path.Join(at, part)
		fi, err := from.Lstat(at)
		if err != nil {
			return ""
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			return at + " is a link; name what it leads to under [workspace] copy instead"
		}
	}
	return ""
}

func copyFile(from, to *os.Root, name string) error {
	in, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fault.Wrap(fault.Failed, err, "%s cannot be copied from the checkout", name)
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > copyMost {
		return fault.Wrap(fault.Failed, err, "%s cannot be copied: it is no regular file of at most %d MB", name, copyMost>>20)
	}
	if err := to.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fi.Mode().Perm())
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	_, err = io.Copy(out, io.LimitReader(in, copyMost))
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return nil
}
