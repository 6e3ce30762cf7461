package box

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// kids starts processes and collects them all: the ones it started and the
// orphans that fall to the helper. One place waits, because two would take each
// other's statuses.
type kids struct {
	mu   sync.Mutex
	byID map[int]*kid // guarded by mu; running processes that spawn made
	fork chan func()  // work for the one thread that forks

	agent int // who processes are started as; 0 is the helper itself
}

// kid is a process made by spawn.
type kid struct {
	pid  int
	done chan struct{}
	why  string // guarded by the lock of kids; the limit that ended it
	exit Exit   // set before done is closed

	mu   sync.Mutex
	over bool // guarded by mu; the pid may belong to somebody else
}

// start begins to collect until ctx is done; afterwards endAll collects.
func (k *kids) start(ctx context.Context) {
	k.byID = map[int]*kid{}
	k.fork = make(chan func())
	becomeReaper()
	go func() {
		// Locked and never unlocked: the thread that gave up new privileges ends
		// with this goroutine, and every child inherits from it.
		runtime.LockOSThread()
		noNewPrivileges()
		if k.agent != 0 {
			inheritNothing()
		}
		for {
			select {
			case f := <-k.fork:
				f()
			case <-ctx.Done():
				return
			}
		}
	}()
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGCHLD)
	go func() {
		defer signal.Stop(sig)
		for {
			k.collect()
			select {
			case <-sig:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// spawn starts a process as the leader of a session of its own. The lock is held
// until it is known, so that the collector cannot meet an unknown child of ours.
func (k *kids) spawn(ctx context.Context, path string, argv, env []string, dir string, files []uintptr) (*kid, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pid, err := 0, error(nil)
	forked := make(chan struct{})
	fork := func() {
		defer close(forked)
		pid, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{
			Dir: dir, Env: env, Files: files, Sys: k.attr(),
		})
	}
	select {
	case k.fork <- fork:
		<-forked
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	c := &kid{pid: pid, done: make(chan struct{})}
	k.byID[pid] = c
	return c, nil
}

// collect takes the status of every child that has ended.
func (k *kids) collect() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := k.byID[pid]; c != nil && (ws.Exited() || ws.Signaled()) {
			delete(k.byID, pid)
			c.mu.Lock()
			c.over = true
			c.mu.Unlock()
			c.exit = Exit{Code: ws.ExitStatus()}
			if ws.Signaled() {
				c.exit = Exit{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
			}
			c.exit.Limit = c.why
			close(c.done)
		}
	}
}

func (k *kids) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.byID)
}

// kill signals the process and its group; what has ended is not signaled.
func (c *kid) kill(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		_ = syscall.Kill(-c.pid, s)
	}
}

// endFor ends all processes at once for a reason, which those that run now keep.
func (k *kids) endFor(why string) {
	k.mu.Lock()
	for _, c := range k.byID {
		c.why = why
	}
	k.mu.Unlock()
	endOthers()
}

// endAll ends every descendant: asked first, killed after the grace.
func (k *kids) endAll(grace time.Duration) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(grace)
	defer late.Stop()
	self := os.Getpid()
	for _, pid := range descendants(self) {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	kill := false
	for {
		k.collect()
		left := descendants(self)
		if len(left) == 0 && k.count() == 0 {
			return
		}
		if kill {
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		select {
		case <-tick.C:
		case <-late.C:
			kill = true
		}
	}
}
