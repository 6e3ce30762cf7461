package spool

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// startMark is the boot id with field 22 of /proc/<pid>/stat: clock ticks since
// that boot, so that a mark from before a restart of the machine never fits.
func startMark(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	// The name in field 2 may hold anything; fields are counted after its end.
	rest := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(rest) < 20 {
		return "", fmt.Errorf("process %d: unreadable stat", pid)
	}
	if s := rest[0][0]; s == 'Z' || s == 'X' {
		return "", fmt.Errorf("process %d: %w", pid, fs.ErrNotExist)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(boot)) + "/" + string(rest[19]), nil
}
