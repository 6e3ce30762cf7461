package login

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// bindingFile lies in the git directory of a clone, where no push, no other clone
// and no container finds it (LG-008).
const bindingFile = "lazy-binding.json"

func bindingPath(dir string) (string, error) {
	root, err := config.GitRoot(dir)
	if err != nil {
		return "", err
	}
	git := filepath.Join(root, ".git")
	info, err := os.Stat(git)
	if err != nil || !info.IsDir() {
		return "", fault.New(fault.Invalid, "%s has no git directory of its own", root)
	}
	return filepath.Join(git, bindingFile), nil
}

// Bind has the clone that dir is in work with a sign-in.
func Bind(dir string, l Login) error {
	path, err := bindingPath(dir)
	if err != nil {
		return err
	}
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return config.WritePrivate(path, append(b, '\n'))
}

// Bound reads what the clone that dir is in works with; ok is false outside a clone
// and in one that is bound to nothing.
func Bound(dir string) (l Login, ok bool, err error) {
	path, err := bindingPath(dir)
	if err != nil {
		return l, false, nil //nolint:nilerr // no clone, so none that is bound
	}
	k, ok, err := read(path)
	return k.Login, ok, err
}

// Unbind ends the binding of the clone that dir is in.
func Unbind(dir string) error {
	path, err := bindingPath(dir)
	if err != nil {
		return nil //nolint:nilerr // as for Bound
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
