package req

import (
	"os"
	"strings"
	"testing"
)

// Script records what a testscript file proves. The file says it in a comment
// above its first archived file: "# covers SM-022 AP-005". Several such lines
// add up to Max ids; a script without one claims nothing.
func Script(t testing.TB, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("req.Script: %v", err)
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "-- ") {
			break
		}
		if list, ok := strings.CutPrefix(line, "# covers "); ok {
			ids = append(ids, strings.Fields(list)...)
		}
	}
	if len(ids) > 0 {
		Covers(t, ids...)
	}
}
