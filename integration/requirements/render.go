package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mainJob are the chapters that the way from a goal to a merged commit needs.
var mainJob = []string{"SM", "TE", "UW", "AC", "SA", "HA", "AA", "OB", "AP", "AG", "MC", "RP"}

// tally counts one chapter or a sum of chapters, by priority.
type tally struct{ covered, total map[string]int }

func (t *tally) add(priority string, covered bool) {
	if t.total == nil {
		t.covered, t.total = map[string]int{}, map[string]int{}
	}
	t.total[priority]++
	if covered {
		t.covered[priority]++
	}
}

func (t *tally) of(priority string) string {
	if t.total[priority] == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", t.covered[priority], t.total[priority])
}

func (t *tally) percent(priority string) int {
	if t.total[priority] == 0 {
		return 0
	}
	return t.covered[priority] * 100 / t.total[priority]
}

// render writes the document, and one line for a log. An id that is not in the
// index is an error: a claim nobody can look up proves nothing.
func render(rows []row, proof map[string][]string) (doc []byte, summary string, err error) {
	known := map[string]bool{}
	var chapters []string
	tallies := map[string]*tally{}
	all, job := &tally{}, &tally{}
	for _, r := range rows {
		known[r.id] = true
		if tallies[r.chapter] == nil {
			chapters = append(chapters, r.chapter)
			tallies[r.chapter] = &tally{}
		}
		covered := len(proof[r.id]) > 0
		tallies[r.chapter].add(r.priority, covered)
		all.add(r.priority, covered)
		if code, _, _ := strings.Cut(r.chapter, " "); slices.Contains(mainJob, code) {
			job.add(r.priority, covered)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(proof)) {
		if !known[id] {
			return nil, "", fmt.Errorf("%s claims %s, which is not in the index", strings.Join(proof[id], ", "), id)
		}
	}
	summary = fmt.Sprintf("P1 requirements proven: %s of all, %s (%d%%) of the main job's chapters",
		all.of("P1"), job.of("P1"), job.percent("P1"))

	var b bytes.Buffer
	b.WriteString("# Requirements and the tests that prove them\n\n" +
		"<!-- Written by `go run ./integration/requirements`; do not edit. -->\n\n" +
		"A requirement counts here only while a test that claims it with `req.Covers` runs, passes and\n" +
		"is not skipped. What is missing from a table is not proven, whatever the code does.\n\n")
	fmt.Fprintf(&b, "- Main job (%s): P1 **%s**, %d%%\n", strings.Join(mainJob, " "), job.of("P1"), job.percent("P1"))
	fmt.Fprintf(&b, "- Everything: P1 **%s**, P2 %s, P3 %s\n\n", all.of("P1"), all.of("P2"), all.of("P3"))
	b.WriteString("| Chapter | P1 | P2 | P3 |\n|---|---|---|---|\n")
	for _, c := range chapters {
		t := tallies[c]
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c, t.of("P1"), t.of("P2"), t.of("P3"))
	}
	for _, c := range chapters {
		section(&b, c, rows, proof)
	}
	return b.Bytes(), summary, nil
}

// section lists what is proven of one chapter and which P1 rows are not.
func section(b *bytes.Buffer, chapter string, rows []row, proof map[string][]string) {
	var missing []string
	table := false
	for _, r := range rows {
		if r.chapter != chapter {
			continue
		}
		if len(proof[r.id]) == 0 {
			if r.priority == "P1" {
				missing = append(missing, r.id)
			}
			continue
		}
		if !table {
			table = true
			fmt.Fprintf(b, "\n## %s\n\n| Id | P | Tests |\n|---|---|---|\n", chapter)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.id, r.priority, strings.Join(proof[r.id], "<br>"))
	}
	if len(missing) == 0 {
		return
	}
	if !table {
		fmt.Fprintf(b, "\n## %s\n", chapter)
	}
	fmt.Fprintf(b, "\nP1 not proven: %s\n", strings.Join(missing, " "))
}
