// Package fault says what a caller may do about an error. Every error that
// reaches a surface is a *Error or becomes Internal there; one table maps a
// kind to its HTTP status, exit code and retry rule (RP-011, OT-052).
package fault

import (
	"errors"
	"fmt"
	"maps"
)

// Kind groups faults by what the caller may do about them.
type Kind string

// The kinds. Failed is the outcome of work that had begun, as opposed to a
// refusal, which wrote nothing.
const (
	Invalid         Kind = "invalid"
	Unauthenticated Kind = "unauthenticated"
	Denied          Kind = "denied"
	NotFound        Kind = "not_found"
	Conflict        Kind = "conflict"
	TooLarge        Kind = "too_large"
	Limited         Kind = "limited"
	Failed          Kind = "failed"
	Internal        Kind = "internal"
	Unavailable     Kind = "unavailable"
)

type row struct {
	http  int
	exit  int
	retry bool
}

var kinds = map[Kind]row{
	Invalid:         {400, 2, false},
	Unauthenticated: {401, 4, false},
	Denied:          {403, 2, false},
	NotFound:        {404, 2, false},
	Conflict:        {409, 2, false},
	TooLarge:        {413, 2, false},
	Limited:         {429, 2, true},
	Failed:          {409, 1, false},
	Internal:        {500, 1, false},
	Unavailable:     {503, 1, true},
}

// Kinds lists every kind, for tests that walk the table.
func Kinds() []Kind {
	return []Kind{
		Invalid, Unauthenticated, Denied, NotFound, Conflict,
		TooLarge, Limited, Failed, Internal, Unavailable,
	}
}

// Next is one line of advice. An empty For means every surface; otherwise it is
// one of cli, web, mcp, person, builder, agent, operator.
type Next struct {
	For  string `json:"for,omitempty"`
	Text string `json:"text"`
}

// Error is a fault with a text that may leave the process. Err never does.
type Error struct {
	Kind    Kind
	Code    string // a refusal code of spec 1.4, or the kind's name
	Public  string
	Next    []Next
	Details map[string]any
	Err     error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Public + ": " + e.Err.Error()
	}
	return e.Public
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches another *Error by code, so errors.Is works with a bare refusal.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Public == ""
}

// New makes a fault whose public text is formatted from args.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Code: string(k), Public: fmt.Sprintf(format, args...)}
}

// Wrap makes a fault that hides cause behind a public text.
func Wrap(k Kind, cause error, format string, args ...any) *Error {
	e := New(k, format, args...)
	e.Err = cause
	return e
}

// WithNext adds one line of advice for every surface.
func (e *Error) WithNext(text string) *Error {
	c := *e
	c.Next = append(append([]Next(nil), e.Next...), Next{Text: text})
	return &c
}

// WithDetail adds one machine-readable detail.
func (e *Error) WithDetail(key string, v any) *Error {
	c := *e
	c.Details = map[string]any{}
	maps.Copy(c.Details, e.Details)
	c.Details[key] = v
	return &c
}

// Of returns err as a fault; an unknown error becomes Internal and says nothing
// of its cause.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: Internal, Code: string(Internal), Public: "internal error", Err: err}
}

// KindOf returns the kind of err, Internal when it has none, "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return Of(err).Kind
}

// Code returns the refusal code of err.
func Code(err error) string {
	if err == nil {
		return ""
	}
	return Of(err).Code
}

// HTTP returns the status of err; 200 for nil.
func HTTP(err error) int {
	if err == nil {
		return 200
	}
	return kinds[KindOf(err)].http
}

// Exit returns the process exit code of err; 0 for nil.
func Exit(err error) int {
	if err == nil {
		return 0
	}
	return kinds[KindOf(err)].exit
}

// Retryable reports whether the same call may succeed later without a change.
func Retryable(err error) bool { return err != nil && kinds[KindOf(err)].retry }

// FromHTTP returns the kind a status stands for, used by clients that rebuild
// an error from an envelope (RP-004). exit code and HTTP status survive the trip.
func FromHTTP(status int) Kind {
	for _, k := range Kinds() {
		if kinds[k].http == status && k != Failed {
			return k
		}
	}
	if status >= 500 {
		return Internal
	}
	return Invalid
}
