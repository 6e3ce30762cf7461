package box

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

// ErrLimit means that a process was ended because all in its sandbox together
// went beyond a limit.
var ErrLimit = errors.New("a limit of the sandbox was reached")

const (
	// look is how often processes and memory are counted.
	lookEvery = 200 * time.Millisecond
	// diskEvery is how often disk is measured at most; a measurement of a large
	// workspace waits for diskShare times what the last one took.
	diskEvery = time.Second
	diskShare = 20
)

// guard holds the limits of a sandbox: what is inside together goes no further
// than they say, or all of it ends. It counts only where the helper is the first
// process of a process namespace, so that everything it sees is its own.
func (s *Server) guard(ctx context.Context) {
	l := s.Limits
	if (l == sandbox.Limits{}) || !alone() {
		return
	}
	if l.OpenFiles > 0 {
		if err := limitFiles(l.OpenFiles); err != nil {
			s.Log.Warn("limit open files", "err", err)
		}
	}
	if l.DiskBytes > 0 && len(s.Writable) > 0 {
		s.live.Go(func() { s.guardDisk(ctx) })
	}
	if l.Processes == 0 && l.MemoryBytes == 0 {
		return
	}
	s.live.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			pids := neighbors()
			if n := int64(len(pids)); l.Processes > 0 && n > l.Processes {
				s.breach(fmt.Sprintf("%d processes ran in the sandbox, and [limits] processes allows %d", n, l.Processes))
				continue
			}
			if l.MemoryBytes > 0 {
				if n := memory(pids, s.Scratch); n > l.MemoryBytes {
					s.breach(fmt.Sprintf("the sandbox used %s of memory, and [limits] memory allows %s", bytesText(n), bytesText(l.MemoryBytes)))
				}
			}
		}
	})
}

func (s *Server) guardDisk(ctx context.Context) {
	next := time.NewTimer(diskEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		began := time.Now()
		if s.kids.count() > 0 {
			if n := usage(ctx, s.Writable, s.Limits.DiskBytes); n > s.Limits.DiskBytes {
				s.breach(fmt.Sprintf("the workspace holds more than the %s that [limits] disk allows", bytesText(s.Limits.DiskBytes)))
			}
		}
		next.Reset(max(diskEvery, diskShare*time.Since(began)))
	}
}

// breach ends everything in the sandbox but the helper, and leaves the reason
// with every process a supervisor waits for.
func (s *Server) breach(why string) {
	s.Log.Warn("limit", "why", why)
	s.kids.endFor(why)
}

// usage adds up what the directories hold, and stops once it is more than enough.
func usage(ctx context.Context, dirs []string, enough int64) (sum int64) {
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil || sum > enough {
				return fs.SkipAll
			}
			if err != nil {
				return nil //nolint:nilerr // what cannot be looked at is not counted
			}
			if fi, err := d.Info(); err == nil {
				sum += taken(fi)
			}
			return nil
		})
	}
	return sum
}

func bytesText(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// neighbors lists the processes of this process namespace but this one.
func neighbors() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(-1)
	self := os.Getpid()
	var pids []int
	for _, n := range names {
		pid := 0
		for _, c := range []byte(n) {
			if c < '0' || c > '9' {
				pid = 0
				break
			}
			pid = pid*10 + int(c-'0')
		}
		if pid > 0 && pid != self {
			pids = append(pids, pid)
		}
	}
	return pids
}
