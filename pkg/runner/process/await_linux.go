package process

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// await returns when the process has ended. A pidfd names the process itself, so
// a reused pid cannot prolong the wait.
func await(i spool.Ident) {
	fd, err := unix.PidfdOpen(i.PID, 0)
	if err != nil {
		pollGone(i)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if !i.Alive() { // the descriptor may be of a successor
		return
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func pollGone(i spool.Ident) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for i.Alive() {
		<-t.C
	}
}
