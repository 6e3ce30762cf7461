//go:build unix

package bootstrap

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// become replaces the process, so signals, the terminal and the exit code need
// no forwarding.
func become(path string, argv, environ []string) (int, error) {
	return 0, syscall.Exec(path, argv, environ)
}

// private refuses a directory that somebody else owns or may write to: it lies
// under a name that others can guess, and what it holds is executed.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || info.Mode().Perm()&0o022 != 0 || int64(st.Uid) != int64(os.Getuid()) {
		return fmt.Errorf("%s: %w", dir, errNotPrivate)
	}
	return nil
}

var errNotPrivate = errors.New("somebody else owns it or may write to it")
