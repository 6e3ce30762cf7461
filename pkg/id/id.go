// Package id makes and parses the identifiers of tasks, turns and the like.
// A task id is a random UUID, so that its first eight characters work as the
// short id; everything else is a UUIDv7, which sorts by time.
package id

import (
	"encoding/hex"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Task identifies a task, for example "3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10".
type Task string

// Turn identifies a turn, a UUIDv7.
type Turn string

// ShortLen is the length of a task's short id (OB-025).
const ShortLen = 8

var (
	taskShape  = pattern.New(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	shortShape = pattern.New(`^[0-9a-f]{8}[0-9a-f-]{0,27}$`)
	codeShape  = pattern.New(`^[a-z0-9][a-z0-9_-]{0,63}$`)
)

// Short returns the first eight characters, unique within a project.
func (t Task) Short() string {
	if len(t) < ShortLen {
		return string(t)
	}
	return string(t[:ShortLen])
}

// Trace returns the W3C trace context that everything done for a turn belongs to:
// whoever knows the turn knows its trace, so no part has to hand it to another. It
// is "" for what is no UUID.
func (t Turn) Trace() string {
	u, err := uuid.Parse(string(t))
	if err != nil {
		return ""
	}
	text := hex.EncodeToString(u[:])
	return "00-" + text + "-" + text[16:] + "-01"
}

// Gen makes ids from a source of randomness.
type Gen struct{ Rand io.Reader }

// Task returns a new task id; collisions of the short id are redrawn by the
// caller, who alone can see them.
func (g Gen) Task() Task { return Task(uuid.Must(uuid.NewRandomFromReader(g.Rand)).String()) }

// New returns a new UUIDv7.
func (g Gen) New() string { return uuid.Must(uuid.NewV7FromReader(g.Rand)).String() }

// ParseTask accepts a full task id.
func ParseTask(s string) (Task, error) {
	if !taskShape.MatchString(s) {
		return "", fault.New(fault.Invalid, "%q is not a task id", s)
	}
	return Task(s), nil
}

// IsTask reports whether s is a full task id.
func IsTask(s string) bool { return taskShape.MatchString(s) }

// IsShort reports whether s is a short id or a longer prefix of a task id.
func IsShort(s string) bool { return shortShape.MatchString(s) }

// IsCode reports whether s can be a task's code: lower-case letters, digits,
// '-' and '_', starting with a letter or digit, at most 64 characters.
func IsCode(s string) bool { return codeShape.MatchString(s) }

// Slug makes a code from a goal: at most 40 characters, "" if nothing is left.
func Slug(goal string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(goal) {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
		} else {
			dash = true
		}
		if b.Len() >= 40 {
			break
		}
	}
	return b.String()
}
