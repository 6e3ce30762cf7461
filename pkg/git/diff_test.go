package git

import (
	"strings"
	"testing"
)

func TestADiffCountsEveryFileAndCutsTheTextAtALine(t *testing.T) {
	f := newFixture(t)
	ws, u := f.workspace()
	base := u.tip
	write(t, ws.Tree, "a.txt", "one\ntwo\n")
	write(t, ws.Tree, "we\tird\x1b\n-name", "x\n")
	write(t, ws.Tree, "bin", "\x00\x01")
	must(t, rename(ws.Tree, "dir/b.txt", "moved.txt"))
	c := f.save(u, "work")
	f.write("main.txt", "later on main\n")
	main := f.commit("main moves on")

	d, err := f.repo.Diff(t.Context(), main, c.Commit, DiffOptions{})
	must(t, err)
	equal(t, "base", d.Base, base)
	stats := map[string]FileStat{}
	for _, s := range d.Files {
		stats[s.Path] = s
	}
	equal(t, "files", len(stats), 4)
	equal(t, "a.txt", stats["a.txt"], FileStat{Path: "a.txt", Added: 2, Deleted: 1})
	equal(t, "binary", stats["bin"].Binary, true)
	equal(t, "rename", stats["moved.txt"].From, "dir/b.txt")
	equal(t, "hostile name", stats["we\tird\x1b\n-name"].Added, 1)
	if strings.ContainsAny(d.Text, "\x1b") || !strings.Contains(d.Text, "+two\n") {
		t.Fatalf("text: %q", d.Text)
	}
	cut, err := f.repo.Diff(t.Context(), main, c.Commit, DiffOptions{MaxBytes: 200})
	must(t, err)
	if !cut.Truncated || len(cut.Text) > 200 || !strings.HasSuffix(cut.Text, "\n") || len(cut.Files) != 4 {
		t.Fatalf("cut: %+v", cut)
	}
	one, err := f.repo.Diff(t.Context(), main, c.Commit, DiffOptions{Paths: []string{"a.txt"}})
	must(t, err)
	equal(t, "one file", len(one.Files), 1)
	log, err := f.repo.LogOneline(t.Context(), base, c.Commit, 0)
	must(t, err)
	equal(t, "log", log[0].Subject, "work")
}
