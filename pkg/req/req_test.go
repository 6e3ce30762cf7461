package req_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// recorder is a test that notes what was claimed, or why it was refused.
type recorder struct {
	testing.TB
	covers, fatal string
}

func (r *recorder) Helper()                { r.TB.Helper() }
func (r *recorder) Attr(key, value string) { r.covers += key + "=" + value }
func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// record runs f as its test would be run, so that a fatal ends it.
func record(t *testing.T, f func(testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func TestACoverageClaimIsAnAttributeOfTheTest(t *testing.T) {
	r := record(t, func(t testing.TB) { req.Covers(t, "SM-022", "GO-01", "TR-73", "P4", "B07") })
	if r.fatal != "" || r.covers != "covers=SM-022 GO-01 TR-73 P4 B07" {
		t.Errorf("got %q, fatal %q", r.covers, r.fatal)
	}
}

func TestAClaimOfNothingOfEverythingOrOfANonsenseIDIsRefused(t *testing.T) {
	for _, ids := range [][]string{
		{},
		{"SM-001", "SM-002", "SM-003", "SM-004", "SM-005", "SM-006"},
		{"sm-001"},
		{"SM-1"},
		{"SM-001 SM-002"},
		{"SMX-"},
		{"P"},
		{"B1"},
		{""},
	} {
		r := record(t, func(t testing.TB) { req.Covers(t, ids...) })
		if r.fatal == "" || r.covers != "" {
			t.Errorf("%q was taken: %q", ids, r.covers)
		}
	}
}

func TestAScriptClaimsWhatItsCommentSays(t *testing.T) {
	for name, test := range map[string]struct {
		script, covers string
		refused        bool
	}{
		"one line":      {script: "# accept lands\n# covers AP-005 SM-019\nexec lazy accept\n", covers: "covers=AP-005 SM-019"},
		"two lines":     {script: "# covers AP-005\n# covers SM-019\n", covers: "covers=AP-005 SM-019"},
		"none":          {script: "exec lazy accept\n"},
		"in a file":     {script: "exec lazy accept\n-- x.txt --\n# covers AP-005\n"},
		"six":           {script: "# covers AP-001 AP-002 AP-003\n# covers AP-004 AP-005 AP-006\n", refused: true},
		"not an id":     {script: "# covers everything\n", refused: true},
		"Windows lines": {script: "# covers AP-005 SM-019\r\n", covers: "covers=AP-005 SM-019"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.txtar")
			if err := os.WriteFile(file, []byte(test.script), 0o600); err != nil {
				t.Fatal(err)
			}
			r := record(t, func(t testing.TB) { req.Script(t, file) })
			if r.covers != test.covers || (r.fatal != "") != test.refused {
				t.Errorf("got %q, fatal %q", r.covers, r.fatal)
			}
		})
	}
}

func TestAScriptThatIsNotThereIsRefused(t *testing.T) {
	r := record(t, func(t testing.TB) { req.Script(t, filepath.Join(t.TempDir(), "none.txtar")) })
	if r.fatal == "" {
		t.Error("a missing script was taken")
	}
}
