package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/text"
)

func TestControlsBecomePrintableEscapes(t *testing.T) {
	req.Covers(t, "SA-002", "WF-18", "OT-026")
	for in, want := range map[string]string{
		"a\x00b": `a\u0000b`, "\x1b[31m": `\u001b[31m`, "\x7f": `\u007f`, "\u0085": `\u0085`, "\u009f": `\u009f`,
		"tab\tlf\ncr\r": "tab\tlf\ncr\r", "é😀\u202e": "é😀\u202e", "\xff": `\xff`, "\u00a0": "\u00a0", "": "",
		"\ufffd": "\ufffd", "\x1f": `\u001f`, " ": " ",
	} {
		if got, _ := text.Escape(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestProseSaysThatItWasChangedAndFieldsDoNot(t *testing.T) {
	req.Covers(t, "SA-003", "SA-004")
	if got := text.Prose("a\x00"); got != `a\u0000`+text.Note {
		t.Errorf("prose is %q", got)
	}
	if got := text.Prose("plain"); got != "plain" {
		t.Errorf("plain prose is %q", got)
	}
	if got := text.Field("p\x00"); got != `p\u0000` {
		t.Errorf("a field is %q", got)
	}
}

func TestCleaningIsIdempotentAndNeverDrops(t *testing.T) {
	req.Covers(t, "SA-005", "SA-007")
	rapid.Check(t, func(r *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(r, "bytes"))
		once := text.Prose(s)
		if twice := text.Prose(once); twice != once {
			r.Fatalf("%q became %q, then %q", s, once, twice)
		}
		if !utf8.ValidString(once) {
			r.Fatalf("%q is not UTF-8", once)
		}
		clean := strings.ToValidUTF8(s, "")
		if clean == s && !strings.ContainsFunc(s, func(c rune) bool {
			return c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c >= 0x7f && c <= 0x9f
		}) && once != s {
			r.Fatalf("ordinary text %q became %q", s, once)
		}
	})
}

func TestLinesAreFoldedAndCut(t *testing.T) {
	if got := text.Line(" a\n\tb  c\x07 "); got != `a b c\u0007` {
		t.Errorf("line is %q", got)
	}
	for in, want := range map[string]bool{"": true, " \t\n": true, "x": false} {
		if text.Blank(in) != want {
			t.Errorf("Blank(%q) = %t", in, !want)
		}
	}
	if got, cut := text.Cut("äöü", 2); got != "äö" || !cut {
		t.Errorf("cut to %q, %t", got, cut)
	}
	if got, cut := text.Cut("äöü", 3); got != "äöü" || cut {
		t.Errorf("cut to %q, %t", got, cut)
	}
}

func TestTOMLReadsBackWhatWasWritten(t *testing.T) {
	for _, s := range []string{"", "plain", `a "quoted" \ one`, "line\nand\ttab", "\x01\x7f", "schön"} {
		got := text.TOML(s)
		want := "\"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\u000A`, "\t", `\u0009`, "\x01", `\u0001`, "\x7f", `\u007F`).Replace(s) + "\""
		if got != want {
			t.Errorf("%q became %s, want %s", s, got, want)
		}
	}
}
