package mcpserver

import (
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestSegmentsAreParsedByShape(t *testing.T) {
	req.Covers(t, "RP-012", "CM-005")
	for in, want := range map[string]string{
		"_":                                    "_",
		"3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10": "3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10",
		"3F2A9C1E":                             "3f2a9c1e",
		"fix-login":                            "fix-login",
	} {
		if got, err := parseSegment(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for in, shape := range map[string]string{
		"":                         "characters that no code has",
		"a b":                      "characters that no code has",
		"../etc":                   "characters that no code has",
		"ünder":                    "characters that no code has",
		"-x":                       "characters that no code has",
		strings.Repeat("a", 65):    "longer than any code",
		"lzy_task_local_aa_bb":     "looks like a secret",
		"lzy_":                     "looks like a secret",
		"Bearer abc":               "looks like a secret",
		"sk-ant-api03-xyz":         "looks like a secret",
		"ghp_16C7e42F292c6912E7":   "looks like a secret",
		"eyJhbGciOiJIUzI1NiJ9.e30": "looks like a secret",
	} {
		_, err := parseSegment(in)
		f := fault.Of(err)
		if !refusal.Is(err, refusal.BadSegment) || !strings.Contains(f.Public, shape) {
			t.Errorf("%q: got %v, want %q", in, err, shape)
		}
		if len(in) > 3 && strings.Contains(f.Error(), in) {
			t.Errorf("%q is repeated in %q", in, f.Error())
		}
	}
}

func FuzzSegment(f *testing.F) {
	for _, s := range []string{"_", "fix-login", "3f2a9c1e", "lzy_task_local_aa_bb", "\x00", "..", strings.Repeat("a", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := parseSegment(in)
		if err == nil {
			if got != builderSegment && !id.IsTask(got) && !id.IsShort(got) && !id.IsCode(got) {
				t.Fatalf("%q was taken for %q", in, got)
			}
			if again, err := parseSegment(got); err != nil || again != got {
				t.Fatalf("%q reads as %q and that as %q, %v", in, got, again, err)
			}
			return
		}
		if !refusal.Is(err, refusal.BadSegment) {
			t.Fatalf("%q: %v", in, err)
		}
		// The text of a refusal is one of three, whatever was sent.
		switch text := fault.Of(err).Public; text {
		case fault.Of(refusal.Of(refusal.BadSegment, "value that looks like a secret")).Public,
			fault.Of(refusal.Of(refusal.BadSegment, "text longer than any code")).Public,
			fault.Of(refusal.Of(refusal.BadSegment, "text with characters that no code has")).Public:
		default:
			t.Fatalf("%q is refused with %q", in, text)
		}
	})
}
