//go:build unix

package git

import (
	"errors"
	"os"
	"syscall"
)

// tryLive takes a lock that the system gives up when this process dies, so that
// whoever holds it knows that an earlier holder is gone.
func tryLive(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
