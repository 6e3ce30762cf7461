package box

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Harden makes the helper a poor target for what it starts: it cannot be traced
// or read through /proc (AG-026), and nothing in the sandbox writes a core.
func Harden() error {
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	none := unix.Rlimit{}
	if e := unix.Setrlimit(unix.RLIMIT_CORE, &none); e != nil {
		err = errors.Join(err, fmt.Errorf("limit core files: %w", e))
	}
	return err
}

// noNewPrivileges keeps what the calling thread starts, and all below it, from
// gaining rights by starting a program.
func noNewPrivileges() { _ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// inheritNothing keeps the calling thread's rights from what it starts: they are
// the helper's, over an agent that is another user.
func inheritNothing() {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&hdr, &caps[0]) == nil {
		caps[0].Inheritable, caps[1].Inheritable = 0, 0
		_ = unix.Capset(&hdr, &caps[0])
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// attr is how a process is started: as the leader of a session of its own and,
// where the helper is somebody else, as the agent's user without any right.
func (k *kids) attr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true}
	if k.agent != 0 {
		id := uint32(k.agent) //nolint:gosec // a user id
		a.Credential = &syscall.Credential{Uid: id, Gid: id}
	}
	return a
}

// becomeReaper lets orphans of the processes below fall to this one, so that
// they can be found and ended.
func becomeReaper() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// descendants lists the processes below pid that have not ended.
func descendants(pid int) []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, _ := d.Readdirnames(-1)
	_ = d.Close()
	parent := map[int]int{}
	for _, n := range names {
		p, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + n + "/stat")
		if err != nil {
			continue
		}
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(f) < 2 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		parent[p], _ = strconv.Atoi(string(f[1]))
	}
	return below(parent, pid)
}

// children lists the processes that pid started. The kernel's own list spares a
// look at every process of the machine.
func children(pid int) []int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return descendants(pid)
	}
	var all []int
	for f := range bytes.FieldsSeq(b) {
		if n, err := strconv.Atoi(string(f)); err == nil {
			all = append(all, n)
		}
	}
	return all
}
