package checkpoint

import "io/fs"

// stat is what is remembered of a file to know it unwritten.
type stat struct {
	size   int64
	mode   fs.FileMode
	mod    int64
	change int64 // 0 where the system tells none: then nothing is remembered
	ino    uint64
}
