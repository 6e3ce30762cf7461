//go:build !linux

package box

import (
	"bytes"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Harden writes no core files; the rest is the sandbox's business here.
func Harden() error {
	none := unix.Rlimit{}
	return unix.Setrlimit(unix.RLIMIT_CORE, &none)
}

func noNewPrivileges() {}

func inheritNothing() {}

func (*kids) attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func becomeReaper() {}

func descendants(pid int) []int {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil
	}
	parent := map[int]int{}
	for line := range bytes.Lines(out) {
		f := bytes.Fields(line)
		if len(f) < 3 || f[2][0] == 'Z' {
			continue
		}
		p, err1 := strconv.Atoi(string(f[0]))
		pp, err2 := strconv.Atoi(string(f[1]))
		if err1 == nil && err2 == nil {
			parent[p] = pp
		}
	}
	return below(parent, pid)
}

func children(pid int) []int { return descendants(pid) }
