//go:build unix

package git

import (
	"errors"
	"syscall"
)

// notDir reports whether a path has a file where it needs a directory.
func notDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }
