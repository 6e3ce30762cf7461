package bwrap

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// forbid switches further user namespaces off for everything below, before
// bubblewrap begins: it cannot do so itself in a namespace that it did not make.
const forbid = `echo 0 >/proc/sys/user/max_user_namespaces || exit 1; exec "$@"`

// setApart starts the command as the first user of a user namespace that has two:
// the helper's and, under the machine's user, the agent's.
func (r *Renderer) setApart(c *exec.Cmd) {
	c.Args = append([]string{"sh", "-c", forbid, "sh"}, c.Args...)
	c.Path = "/bin/sh"
	ids := func(own int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: helperID, HostID: r.lent, Size: 1}, {ContainerID: agentID, HostID: own, Size: 1}}
	}
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids(os.Geteuid()), GidMappings: ids(os.Getegid()),
		GidMappingsEnableSetgroups: true, Credential: &syscall.Credential{Uid: helperID, Gid: helperID},
	}
}

func number(s string, base int) int64 {
	n, _ := strconv.ParseInt(s, base, 64)
	return n
}
