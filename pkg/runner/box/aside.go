package box

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Aside says what is to be moved out of the way: things at which an agent's CLI
// would fail or wait for ever.
type Aside struct {
	Dir   string   `json:"dir"`
	Paths []string `json:"paths"` // relative to Dir; each element is a pattern of path.Match
	// All moves what matches whatever it is. Without it a file or a directory that
	// is one stays.
	All bool `json:"all,omitempty"`
}

// Moved is something that was moved out of the way, to the same name with
// AsideSuffix.
type Moved struct {
	Path string `json:"path"` // relative to Aside.Dir
	What string `json:"what"` // a named pipe, a directory, …
}

// AsideSuffix ends the name of what was moved out of the way. One of each name is
// kept, for whoever wants to look.
const AsideSuffix = ".damaged"

// Aside moves what stands in the way inside.
func (c Client) Aside(ctx context.Context, a Aside) ([]Moved, error) {
	h, err := c.ask(ctx, request{Op: opAside, Aside: &a})
	return h.Moved, err
}

// aside never follows a link out of the directory and never opens what is no
// directory.
func aside(a Aside) ([]Moved, error) {
	root, err := os.OpenRoot(a.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Failed, err, "%s cannot be opened: %v", a.Dir, err)
	}
	defer root.Close()
	var moved []Moved
	for _, p := range a.Paths {
		if moved, err = down(root, "", strings.Split(p, "/"), a.All, moved); err != nil {
			return moved, fault.Wrap(fault.Failed, err, "what is damaged in %s cannot be moved away: %v", a.Dir, err)
		}
	}
	return moved, nil
}

// down goes down one element of a pattern. On the way to a file there have to be
// directories, and at its end a regular file.
func down(dir *os.Root, at string, elements []string, all bool, moved []Moved) ([]Moved, error) {
	found := elements[:1]
	named := !strings.ContainsAny(elements[0], `*?[\`)
	if !named {
		list, err := fs.Glob(dir.FS(), elements[0])
		if err != nil {
			return moved, err
		}
		found = slices.DeleteFunc(list, func(name string) bool { return strings.HasSuffix(name, AsideSuffix) })
	}
	for _, name := range found {
		fi, err := dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return moved, err
		}
		last, mode := len(elements) == 1, fi.Mode()
		switch {
		case !last && mode.IsDir():
			sub, err := dir.OpenRoot(name)
			if err != nil {
				return moved, err
			}
			moved, err = down(sub, path.Join(at, name), elements[1:], all, moved)
			sub.Close()
			if err != nil {
				return moved, err
			}
			continue
		case all, last && !mode.IsRegular(), !last && (named || !mode.IsRegular()):
		default:
			continue
		}
		if err := errors.Join(dir.RemoveAll(name+AsideSuffix), dir.Rename(name, name+AsideSuffix)); err != nil {
			return moved, err
		}
		moved = append(moved, Moved{Path: filepath.ToSlash(path.Join(at, name)), What: kindOf(mode)})
	}
	return moved, nil
}

// kindOf words what a thing is.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
