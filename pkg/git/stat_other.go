//go:build !linux && !darwin

package git

import "io/fs"

// statOf returns what an index remembers of a file; the fields this system does
// not have stay zero, which makes git look at the content instead.
func statOf(fi fs.FileInfo) stat {
	return stat{
		MSec: uint32(fi.ModTime().Unix()), MNsec: uint32(fi.ModTime().Nanosecond()),
		Size: uint32(fi.Size()),
	}
}
