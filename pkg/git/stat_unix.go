//go:build linux || darwin

package git

import (
	"io/fs"
	"syscall"
)

// statOf returns what an index remembers of a file.
func statOf(fi fs.FileInfo) stat {
	s := stat{
		MSec: uint32(fi.ModTime().Unix()), MNsec: uint32(fi.ModTime().Nanosecond()),
		Size: uint32(fi.Size()),
	}
	if t, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.Dev, s.Ino, s.UID, s.GID = uint32(t.Dev), uint32(t.Ino), t.Uid, t.Gid
		s.CSec, s.CNsec = changeTime(t)
	}
	return s
}
