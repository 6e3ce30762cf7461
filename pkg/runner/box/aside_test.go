//go:build unix

package box_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/runner/box"
)

// What is no regular file is moved away and never opened: opening a pipe would
// take as long as the agent likes.
func TestWhatStandsInTheWayOfAFileIsMovedAway(t *testing.T) {
	c, _ := helper(t)
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"talk/a", "talk/b/one.jsonl", "talk/c/gone.jsonl.damaged"} {
		must(t, os.MkdirAll(at(d), 0o700))
	}
	must(t, os.WriteFile(outside, []byte("theirs"), 0o600))
	must(t, os.WriteFile(at("talk/a/one.jsonl"), []byte("good"), 0o600))
	must(t, os.WriteFile(at("talk/a/two.jsonl"), []byte("good"), 0o600))
	must(t, os.WriteFile(at("talk/stray"), []byte("x"), 0o600))
	must(t, os.Symlink(outside, at("talk/a/link.jsonl")))
	must(t, syscall.Mkfifo(at("talk/c/one.jsonl"), 0o600))
	must(t, syscall.Mkfifo(at("talk/d"), 0o600))
	must(t, os.WriteFile(at("state"), []byte("no directory"), 0o600))

	moved := func(all bool, paths ...string) []box.Moved {
		t.Helper()
		m, err := c.Aside(t.Context(), box.Aside{Dir: dir, Paths: paths, All: all})
		must(t, err)
		return m
	}
	got := moved(false, "talk/*/one.jsonl", "talk/*/link.jsonl", "state/db", "none/db")
	want := []box.Moved{
		{Path: "talk/b/one.jsonl", What: "a directory"},
		{Path: "talk/c/one.jsonl", What: "a named pipe"},
		{Path: "talk/d", What: "a named pipe"},
		{Path: "talk/a/link.jsonl", What: "a link"},
		{Path: "state", What: "a file"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("moved %v, want %v", got, want)
	}
	if again := moved(false, "talk/*/one.jsonl"); len(again) > 0 {
		t.Errorf("moved once more: %v", again)
	}
	if got := moved(true, "talk/*/one.jsonl"); !slices.Equal(got, []box.Moved{
		{Path: "talk/a/one.jsonl", What: "a file"}, {Path: "talk/stray", What: "a file"},
	}) {
		t.Errorf("with files: %v", got)
	}
	for name, want := range map[string]string{"talk/a/one.jsonl.damaged": "good", "talk/a/two.jsonl": "good"} {
		if b, err := os.ReadFile(at(name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "theirs" {
		t.Errorf("what a link led to: %q, %v", b, err)
	}
	if m, err := c.Aside(t.Context(), box.Aside{Dir: at("nowhere"), Paths: []string{"x"}}); err != nil || len(m) > 0 {
		t.Errorf("a directory that is not there: %v, %v", m, err)
	}
}

// An agent may have put a directory where a file of ours belongs.
func TestAFileIsWrittenWhateverIsThere(t *testing.T) {
	c, _ := helper(t)
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "directory", "full"), 0o700))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, name := range []string{"directory", "pipe", "nothing"} {
		must(t, c.Write(t.Context(), box.File{Dir: dir, Name: name, Mode: 0o600, Data: []byte("ours")}))
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "ours" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
