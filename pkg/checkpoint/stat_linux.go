package checkpoint

import (
	"io/fs"
	"syscall"
)

// statOf tells a file that was written from one that was not. The change time
// cannot be set by whoever owns the file.
func statOf(fi fs.FileInfo) stat {
	s := stat{size: fi.Size(), mode: fi.Mode(), mod: fi.ModTime().UnixNano()}
	if t, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.ino, s.change = t.Ino, t.Ctim.Nano()
	}
	return s
}
