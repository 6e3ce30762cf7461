// Package req ties tests to the numbered requirements they prove. The marks
// travel as test attributes, so only a test that really ran can be counted.
package req

import (
	"regexp"
	"strings"
	"testing"
)

var shape = regexp.MustCompile(`^([A-Z]{2,3}-\d{2,3}|P\d{1,2}|B\d{2})$`)

// Max is the number of requirements one test may claim.
const Max = 5

// Covers records that the calling test proves the given requirements. A test
// claims five at most: a test of everything proves nothing in particular.
func Covers(t testing.TB, ids ...string) {
	t.Helper()
	if len(ids) == 0 || len(ids) > Max {
		t.Fatalf("req.Covers: %d ids; a test claims 1 to %d", len(ids), Max)
	}
	for _, id := range ids {
		if !shape.MatchString(id) {
			t.Fatalf("req.Covers: %q is not a requirement id", id)
		}
	}
	t.Attr("covers", strings.Join(ids, " "))
}
