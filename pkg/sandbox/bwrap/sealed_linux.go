package bwrap

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// sealed returns a file that exists in memory only and holds content.
func sealed(name, content string) (*os.File, error) {
	fd, err := unix.MemfdCreate("lazy:"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = io.WriteString(f, content)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
