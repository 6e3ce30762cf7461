//go:build unix

package moto

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's signals away from the server, which would
// otherwise die before the test has cleaned up.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
