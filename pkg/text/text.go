// Package text cleans what people, agents and forges send before it is stored:
// control characters become printable escapes, ordinary text passes byte for
// byte, and nothing is ever rejected or dropped (SA-001 to SA-007, OT-026).
package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Note is appended to prose in which something was replaced (SA-003).
const Note = "\n[lazy: control characters in this text were replaced by visible escapes]"

// Escape replaces C0 controls except tab, LF and CR, DEL, C1 controls and bytes
// that are not UTF-8 by printable escapes. It reports whether it replaced any.
func Escape(s string) (string, bool) {
	clean := true
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if control(r, n) {
			clean = false
			break
		}
		i += n
	}
	if clean {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case control(r, n):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String(), true
}

func control(r rune, n int) bool {
	if r == utf8.RuneError && n == 1 {
		return true
	}
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return r < 0x20 || (r >= 0x7f && r <= 0x9f)
}

// Prose cleans a text a person or agent will read, and says so when it had to.
func Prose(s string) string {
	out, changed := Escape(s)
	if changed {
		out += Note
	}
	return out
}

// Field cleans a single-line field or a path: escapes without a note.
func Field(s string) string {
	out, _ := Escape(s)
	return out
}

// Line cleans a field and folds it into one line for display.
func Line(s string) string { return strings.Join(strings.Fields(Field(s)), " ") }

// Cut shortens s to at most n runes and reports whether it had to.
func Cut(s string, n int) (string, bool) {
	if utf8.RuneCountInString(s) <= n {
		return s, false
	}
	r := []rune(s)
	return string(r[:n]), true
}

// Blank reports whether s has nothing but white space.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }
