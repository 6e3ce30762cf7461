//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps a terminal's signals from a program that must outlive them for a
// moment: what it serves is still being cleaned up.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
