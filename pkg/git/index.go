package git

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's own checksum of an index, not a promise of ours
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"sort"
	"strings"
)

// Modes of entries in trees and indexes.
const (
	modeFile = 0o100644
	modeExec = 0o100755
	modeLink = 0o120000
	modeRepo = 0o160000
)

// stat is what an index remembers of a file to know it unchanged.
type stat struct {
	CSec, CNsec, MSec, MNsec, Dev, Ino, UID, GID, Size uint32
}

// blob is a mode with an object id; the zero blob is a path that does not exist.
type blob struct {
	Mode uint32
	ID   string
}

// indexEntry is one line of an index.
type indexEntry struct {
	Path   string
	Blob   blob
	Stage  int
	Stat   stat
	Assume bool // assume-unchanged
	Skip   bool // skip-worktree
	Intent bool // intent-to-add
}

const (
	flagAssume   = 0x8000
	flagExtended = 0x4000
	flagSkip     = 0x4000
	flagIntent   = 0x2000
	nameMask     = 0x0fff
)

// parseIndex reads an index of version 2 to 4. It is handed bytes an agent may
// have written: it trusts no length and returns ErrIndex for anything odd, also
// for split and sparse indexes, whose entries are elsewhere.
func parseIndex(b []byte, idLen int) ([]indexEntry, error) {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrIndex, what) }
	if len(b) < 12+idLen || string(b[:4]) != "DIRC" {
		return nil, bad("no header")
	}
	version, count := binary.BigEndian.Uint32(b[4:]), int64(binary.BigEndian.Uint32(b[8:]))
	if version < 2 || version > 4 {
		return nil, bad("unknown version")
	}
	fixed := 40 + idLen + 2
	body := b[12 : len(b)-idLen]
	if count*int64(fixed) > int64(len(body)) {
		return nil, bad("count is larger than the file")
	}
	all := make([]indexEntry, 0, count)
	prev, at := "", 0
	for range count {
		e, n, err := parseEntry(body[at:], version, idLen, prev)
		if err != nil {
			return nil, bad(err.Error())
		}
		if e.Path < prev || (e.Path == prev && len(all) > 0 && all[len(all)-1].Stage >= e.Stage) {
			return nil, bad("entries are out of order")
		}
		all, prev, at = append(all, e), e.Path, at+n
	}
	for at+8 <= len(body) {
		sig, size := string(body[at:at+4]), int64(binary.BigEndian.Uint32(body[at+4:]))
		if sig == "link" || sig == "sdir" {
			return nil, bad("split or sparse")
		}
		if size > int64(len(body)-at-8) {
			return nil, bad("an extension is longer than the file")
		}
		at += 8 + int(size)
	}
	return all, nil
}

func parseEntry(b []byte, version uint32, idLen int, prev string) (e indexEntry, n int, err error) {
	short := fmt.Errorf("an entry is cut off")
	if len(b) < 40+idLen+2 {
		return e, 0, short
	}
	u := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	e.Stat = stat{CSec: u(0), CNsec: u(1), MSec: u(2), MNsec: u(3), Dev: u(4), Ino: u(5), UID: u(7), GID: u(8), Size: u(9)}
	e.Blob = blob{Mode: u(6), ID: hex.EncodeToString(b[40 : 40+idLen])}
	at := 40 + idLen
	flags := binary.BigEndian.Uint16(b[at:])
	at += 2
	e.Stage, e.Assume = int(flags>>12&3), flags&flagAssume != 0
	if flags&flagExtended != 0 {
		if version < 3 || len(b) < at+2 {
			return e, 0, short
		}
		ext := binary.BigEndian.Uint16(b[at:])
		at += 2
		e.Skip, e.Intent = ext&flagSkip != 0, ext&flagIntent != 0
	}
	if version == 4 {
		strip, used := offsetVarint(b[at:])
		if used == 0 || strip > uint64(len(prev)) {
			return e, 0, fmt.Errorf("a compressed name is wrong")
		}
		at += used
		end := bytes.IndexByte(b[at:], 0)
		if end < 0 {
			return e, 0, short
		}
		e.Path = prev[:len(prev)-int(strip)] + string(b[at:at+end])
		at += end + 1
	} else {
		end := bytes.IndexByte(b[at:], 0)
		if end < 0 {
			return e, 0, short
		}
		e.Path = string(b[at : at+end])
		at = (at + end + 8) &^ 7
		if at > len(b) {
			return e, 0, short
		}
	}
	switch e.Blob.Mode {
	case modeFile, modeExec, modeLink, modeRepo:
	default:
		return e, 0, fmt.Errorf("a mode is unknown")
	}
	if !safePath(e.Path) {
		return e, 0, fmt.Errorf("a path is not allowed")
	}
	return e, at, nil
}

// offsetVarint reads git's offset encoding; used is 0 when it is malformed.
func offsetVarint(b []byte) (v uint64, used int) {
	for i, c := range b {
		if i > 4 {
			return 0, 0
		}
		if i > 0 {
			v++
		}
		v = v<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return v, i + 1
		}
	}
	return 0, 0
}

// safePath reports whether p is relative, clean and outside any ".git".
func safePath(p string) bool {
	if p == "" || strings.HasPrefix(p, "/") || strings.Contains(p, "\x00") {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") {
			return false
		}
	}
	return true
}

// formatIndex writes an index of version 2, or 3 when an entry needs it.
func formatIndex(entries []indexEntry, idLen int) ([]byte, error) {
	sort.Slice(entries, func(i, j int) bool {
		if entries[i].Path != entries[j].Path {
			return entries[i].Path < entries[j].Path
		}
		return entries[i].Stage < entries[j].Stage
	})
	version := uint32(2)
	for _, e := range entries {
		if e.Skip || e.Intent {
			version = 3
		}
	}
	b := make([]byte, 0, 12+len(entries)*(80+idLen)+idLen)
	b = append(b, "DIRC"...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		start := len(b)
		s := e.Stat
		for _, v := range []uint32{s.CSec, s.CNsec, s.MSec, s.MNsec, s.Dev, s.Ino, e.Blob.Mode, s.UID, s.GID, s.Size} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		id, err := hex.DecodeString(e.Blob.ID)
		if err != nil || len(id) != idLen {
			return nil, fmt.Errorf("write index: %q is not an object id", e.Blob.ID)
		}
		b = append(b, id...)
		flags := uint16(e.Stage&3)<<12 | uint16(min(len(e.Path), nameMask))
		if e.Assume {
			flags |= flagAssume
		}
		var ext uint16
		if e.Skip {
			ext |= flagSkip
		}
		if e.Intent {
			ext |= flagIntent
		}
		if ext != 0 {
			b = binary.BigEndian.AppendUint16(b, flags|flagExtended)
			b = binary.BigEndian.AppendUint16(b, ext)
		} else {
			b = binary.BigEndian.AppendUint16(b, flags)
		}
		b = append(b, e.Path...)
		for pad := 8 - (len(b)-start)%8; pad > 0; pad-- {
			b = append(b, 0)
		}
	}
	var h hash.Hash
	if idLen == 32 {
		h = sha256.New()
	} else {
		h = sha1.New()
	}
	h.Write(b)
	return h.Sum(b), nil
}
