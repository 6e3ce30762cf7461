package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Self identifies the calling process.
func Self() (Ident, error) { return Identify(os.Getpid()) }

// Identify returns a process with its start mark; fs.ErrNotExist when no such
// process runs. One that has ended and waits to be collected does not run.
func Identify(pid int) (Ident, error) {
	mark, err := startMark(pid)
	if err != nil {
		return Ident{}, err
	}
	return Ident{PID: pid, Mark: mark}, nil
}

// Alive reports whether exactly this process runs: another one that has got its
// pid since has another mark.
func (i Ident) Alive() bool {
	if i.PID <= 0 {
		return false
	}
	now, err := Identify(i.PID)
	return err == nil && now.Mark == i.Mark
}

// Lock takes a run's lock without waiting for its holder. A nil file and no error
// mean that somebody holds it. The lock belongs to the open file: a child that
// inherits it keeps it after the launcher's death, and it ends with the child,
// however that ends.
func Lock(dir string) (*os.File, error) { return lock(filepath.Join(dir, LockFile)) }

// LockBox takes the lock of a task's sandbox, as Lock does: a nil file means that
// some process of one still runs.
func LockBox(dir string) (*os.File, error) { return lock(filepath.Join(dir, BoxLog)) }

// Held reports whether somebody holds a run's lock; a missing one is held by
// nobody.
func Held(dir string) (bool, error) { return held(filepath.Join(dir, LockFile)) }

// HeldBox reports whether some process of a task's sandbox runs.
func HeldBox(dir string) (bool, error) { return held(filepath.Join(dir, BoxLog)) }

// lookers is how long Lock lets those pass who only look: they share the lock
// for a moment.
const lookers = 50 * time.Millisecond

func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for waited := time.Duration(0); ; waited += time.Millisecond {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("take lock: %w", err), f.Close())
		}
		if waited >= lookers {
			return nil, f.Close()
		}
		time.Sleep(time.Millisecond)
	}
}

// held looks with a shared lock: those who look do not see each other.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil || errors.Is(err, unix.EWOULDBLOCK) {
		return err != nil, nil
	}
	return false, fmt.Errorf("look at lock: %w", err)
}
