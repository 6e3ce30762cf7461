package spool

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// Tail returns the last lines of a file: 200 lines and 32 KB at most (CR-002).
// A missing file is empty.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := max(0, end-names.LogTailBytes)
	b := make([]byte, end-from)
	n, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return LastLines(b[:n], from > 0)
}

// LastLines cuts b to the last 200 lines; cut says that b begins in the middle of
// something, so its first, partial line goes.
func LastLines(b []byte, cut bool) string {
	if over := len(b) - names.LogTailBytes; over > 0 {
		b, cut = b[over:], true
	}
	if cut {
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i < len(b)-1 {
			b = b[i+1:]
		}
	}
	end := len(bytes.TrimRight(b, "\n"))
	at := end
	for range names.LogTailLines {
		i := bytes.LastIndexByte(b[:at], '\n')
		if i < 0 {
			return string(b)
		}
		at = i
	}
	return string(b[at+1:])
}
