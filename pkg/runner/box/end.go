package box

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// End ends the sandbox of a task with everything in it: its helper is asked, and
// whatever still runs after the grace is killed. Ending one that does not run is
// a success. After it nothing of the sandbox runs: its lock, which every process
// of it holds, is free. A sandbox that a read-only turn left beside it ends first.
func End(ctx context.Context, dir string, grace time.Duration, after func(time.Duration) <-chan time.Time) error {
	if _, err := os.Stat(filepath.Join(dir, spool.SealedBox)); err == nil {
		if err := End(ctx, filepath.Join(dir, spool.SealedBox), grace, after); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, spool.BoxLog)); errors.Is(err, fs.ErrNotExist) {
		return forget(dir)
	}
	var b spool.Box
	if _, err := spool.Read(dir, spool.BoxFile, &b); err != nil {
		return err
	}
	free, err := lockFree(dir)
	if err != nil {
		return err
	}
	if !free {
		// Asked by its socket, which is known even where a crash kept the record
		// from being written.
		ask, cancel := context.WithCancel(ctx)
		go func() {
			defer cancel()
			_, _ = Client{Socket: filepath.Join(dir, spool.BoxSocket)}.ask(ask, request{Op: opEnd})
		}()
		free, err = waitFree(ctx, dir, grace, after)
		cancel()
		if err != nil {
			return err
		}
	}
	if !free {
		for _, i := range []spool.Ident{b.Ident, b.Helper} {
			if !i.Alive() {
				continue
			}
			for _, pid := range append(descendants(i.PID), i.PID) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if free, err = waitFree(ctx, dir, grace, after); err != nil {
			return err
		}
		if !free {
			return fmt.Errorf("a process of the sandbox in %s does not end", dir)
		}
	}
	return forget(dir)
}

func forget(dir string) error {
	if err := os.Remove(filepath.Join(dir, spool.BoxFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget sandbox: %w", err)
	}
	return nil
}

func lockFree(dir string) (bool, error) {
	held, err := spool.HeldBox(dir)
	return !held, err
}

// waitFree waits until the lock is free, or for the grace.
func waitFree(ctx context.Context, dir string, grace time.Duration, after func(time.Duration) <-chan time.Time) (bool, error) {
	late := after(grace)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		free, err := lockFree(dir)
		if err != nil || free {
			return free, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-late:
			return lockFree(dir)
		case <-tick.C:
		}
	}
}

// HelperOf finds the helper below the process that made a sandbox: the last of
// the chain, when nothing else runs in it yet.
func HelperOf(pid int) spool.Ident {
	last := pid
	for {
		kids := children(last)
		if len(kids) == 0 {
			break
		}
		last = kids[0]
	}
	i, err := spool.Identify(last)
	if err != nil {
		return spool.Ident{}
	}
	return i
}
