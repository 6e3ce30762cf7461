package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// merged is a demo whose agent has worked and whose task was merged, by git
// alone; rec is what `lazy show` says about it.
func merged(t *testing.T) (*run, *record, landing) {
	t.Helper()
	dir := t.TempDir()
	rec := &record{Status: "blocked"}
	r := &run{
		h: Host{
			Out: io.Discard, Err: io.Discard, Now: time.Now, Environ: os.Environ(),
			Lazy: func(_ context.Context, _ Place, out, _ io.Writer, args ...string) int {
				if args[0] != "show" {
					t.Errorf("it ran lazy %v", args)
				}
				_ = json.NewEncoder(out).Encode(rec)
				return 0
			},
		},
		at:  Place{Dir: dir, Home: filepath.Join(dir, "state"), Repo: filepath.Join(dir, "repo")},
		git: gitter{environ: os.Environ(), config: filepath.Join(dir, "gitconfig")},
	}
	if err := r.repository(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.must(t, "switch", "--quiet", "-c", "lazy/greet")
	r.write(t, "greet.sh", "echo \"Hello, $1!\"\n")
	r.must(t, "commit", "--quiet", "-am", "greet: take a name")
	rec.Head = r.must(t, "rev-parse", "HEAD")
	r.must(t, "switch", "--quiet", "main")
	was, err := r.before(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.must(t, "merge", "--quiet", "--squash", "lazy/greet")
	r.must(t, "commit", "--quiet", "-m", "Greet people by name")
	rec.Status, rec.Merge = "complete", r.must(t, "rev-parse", "HEAD")
	return r, rec, was
}

func (r *run) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.git.run(t.Context(), r.at.Repo, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *run) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.at.Repo, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestARightMergeIsRecognized(t *testing.T) {
	r, rec, was := merged(t)
	got, err := r.verify(t.Context(), was)
	if err != nil || got != rec.Merge {
		t.Errorf("got %s, %v; want %s", got, err, rec.Merge)
	}
}

func TestAWrongMergeIsNeverASuccess(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, r *run, rec *record)
		want  string
	}{
		{"the task is not complete", func(_ *testing.T, _ *run, rec *record) { rec.Status = "merging" }, "the task is merging"},
		{"the record names another commit", func(_ *testing.T, _ *run, rec *record) { rec.Merge = rec.Head }, "the record says"},
		{"nothing was merged", func(t *testing.T, r *run, rec *record) {
			r.must(t, "reset", "--quiet", "--hard", "HEAD~1")
			rec.Merge = r.must(t, "rev-parse", "HEAD")
		}, "its parents are"},
		{"it stands on something else", func(t *testing.T, r *run, rec *record) {
			r.must(t, "commit", "--quiet", "--allow-empty", "-m", "more")
			rec.Merge = r.must(t, "rev-parse", "HEAD")
		}, "its parents are"},
		{"its tree is another", func(t *testing.T, r *run, rec *record) {
			r.write(t, "greet.sh", "echo wrong\n")
			r.must(t, "commit", "--quiet", "--amend", "-am", "Greet people by name")
			rec.Merge = r.must(t, "rev-parse", "HEAD")
		}, "its tree is"},
		{"the file is not checked out", func(t *testing.T, r *run, _ *record) { r.write(t, "greet.sh", "echo wrong\n") }, "greet.sh is not checked out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, rec, was := merged(t)
			c.spoil(t, r, rec)
			if _, err := r.verify(t.Context(), was); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestATaskWithoutACommitIsNotAccepted(t *testing.T) {
	r, rec, _ := merged(t)
	rec.Head = r.must(t, "rev-parse", "HEAD")
	if _, err := r.before(t.Context()); err == nil || !strings.Contains(err.Error(), "no commit of its own") {
		t.Errorf("got %v", err)
	}
}

// What is printed for people to copy has to survive a shell.
func TestPrintedCommandLinesMeanTheirArguments(t *testing.T) {
	args := []string{"plain", "two words", `quo"te`, "it's", "$HOME `id` \\", "", "-x", "ü", "a*b", "tilde~", "line\nbreak"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\0' "+commandLine(args)).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if d := cmp.Diff(args, got); d != "" {
		t.Error(d)
	}
}

func TestTheCommandToTryNextRunsTheProgramOnTheDemosState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a demo")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(self, []byte("#!/bin/sh\necho \"${0##*/} $LAZY_HOME ${LAZY_TARGET-unset}\"; printf '%s|' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := &run{h: Host{Self: self}, at: Place{Dir: dir, Home: dir + "/state", Repo: dir + "/repo"}}
	line, err := r.wrapper()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line+" show 'a b'")
	cmd.Env = append(os.Environ(), "LAZY_TARGET=http://elsewhere")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := "lazy " + dir + "/state unset\n-C|" + dir + "/repo|show|a b|"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}
