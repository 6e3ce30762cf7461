//go:build unix

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// DetachProcess starts argv in a session of its own: closing the terminal or
// pressing Ctrl-C there does not reach it. Its output is appended to log.
func DetachProcess(argv, env []string, dir, log string) error {
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd := &exec.Cmd{
		Path: argv[0], Args: append([]string{"lazy"}, argv[1:]...), Env: env, Dir: dir,
		Stdout: out, Stderr: out,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	return cmd.Process.Release()
}
