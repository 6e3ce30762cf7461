//go:build !linux

package spool

import (
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
)

// startMark is the start time that ps prints, with the state to leave out a
// process that waits to be collected.
func startMark(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) < 2 || strings.HasPrefix(fields[0], "Z") {
		return "", fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	return strings.Join(fields[1:], " "), nil
}
