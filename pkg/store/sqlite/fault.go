package sqlite

import (
	"errors"
	"fmt"

	sqlite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// damaged marks an error as found in the content of the file.
type damaged struct{ err error }

func (d *damaged) Error() string { return d.err.Error() }
func (d *damaged) Unwrap() error { return d.err }

func code(err error) int {
	if _, ok := errors.AsType[*damaged](err); ok {
		return lib.SQLITE_CORRUPT
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// fault says what a person can do about an error of the file. While opening,
// what no repetition cures is Invalid; later everything is Unavailable, because
// no caller's request is to blame.
func (s *Store) fault(err error, opening bool) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	hopeless := fault.Unavailable
	if opening {
		hopeless = fault.Invalid
	}
	if errors.Is(err, errShut) {
		return s.closed()
	}
	switch code(err) {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_FORMAT:
		return fault.Wrap(hopeless, err, "the store %s is damaged; stop lazy, keep a copy of the file and put back a backup", s.path)
	case lib.SQLITE_FULL:
		return fault.Wrap(fault.Unavailable, err, "the disk that holds the store %s is full; make room and try again", s.path)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return fault.Wrap(fault.Unavailable, err, "the store %s is locked by another process; stop that process or wait for it", s.path)
	case lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return fault.Wrap(fault.Unavailable, err, "the store %s cannot be written; make the file and its folder writable", s.path)
	case lib.SQLITE_IOERR:
		return fault.Wrap(fault.Unavailable, err, "the disk that holds the store %s answered with an error; check the disk", s.path)
	case lib.SQLITE_NOMEM:
		return fault.Wrap(fault.Unavailable, err, "there is no memory left for the store %s; free some and try again", s.path)
	}
	return fmt.Errorf("use store %s: %w", s.path, err)
}
