package box

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// settle gives the agent the home directory that was made for it.
func (s *Server) settle() error {
	if s.Agent == 0 {
		return nil
	}
	for _, kv := range s.Env {
		if home, ok := strings.CutPrefix(kv, "HOME="); ok {
			return os.Lchown(home, s.Agent, s.Agent)
		}
	}
	return nil
}

// write replaces a file by a rename inside one directory, so that a link planted
// there is replaced, not followed. What is made is the agent's.
func (s *Server) write(f File) error {
	if err := s.mkdirAll(f.Dir); err != nil {
		return fault.Wrap(fault.Failed, err, "%s cannot be made: %v", f.Dir, err)
	}
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return fault.Wrap(fault.Failed, err, "%s cannot be opened: %v", f.Dir, err)
	}
	defer root.Close()
	temp := "." + f.Name + ".lazy"
	_ = root.RemoveAll(temp)
	err = s.fill(root, temp, f)
	if err == nil {
		if fi, was := root.Lstat(f.Name); was == nil && fi.IsDir() {
			_ = root.RemoveAll(f.Name) // no rename replaces one
		}
		err = root.Rename(temp, f.Name)
	}
	if err != nil {
		return fault.Wrap(fault.Failed, err, "%s cannot be written: %v", filepath.Join(f.Dir, f.Name), err)
	}
	return nil
}

func (s *Server) fill(root *os.Root, name string, f File) error {
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode.Perm())
	if err != nil {
		return err
	}
	_, err = out.Write(f.Data)
	if s.Agent != 0 {
		err = errors.Join(err, out.Chown(s.Agent, s.Agent))
	}
	return errors.Join(err, out.Close())
}

func (s *Server) mkdirAll(dir string) error {
	if s.Agent == 0 {
		return os.MkdirAll(dir, 0o755)
	}
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		return nil
	}
	if up := filepath.Dir(dir); up != dir {
		if err := s.mkdirAll(up); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Lchown(dir, s.Agent, s.Agent)
}
