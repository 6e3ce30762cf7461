//go:build !linux

package bwrap

import "os/exec"

func (r *Renderer) setApart(*exec.Cmd) {}

func number(string, int) int64 { return 0 }
