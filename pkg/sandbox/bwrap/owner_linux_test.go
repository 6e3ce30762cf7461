package bwrap_test

import (
	"io"
	"io/fs"
	"os/exec"
	"syscall"

	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

func owner(fi fs.FileInfo) uint32 { return fi.Sys().(*syscall.Stat_t).Uid }

// startAndKill kills bubblewrap itself once the process inside has spoken.
func startAndKill(c *exec.Cmd, out io.Reader) error {
	if err := sandbox.Start(c); err != nil {
		return err
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		return err
	}
	return c.Process.Kill()
}
