package git

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnIndexOfGitIsReadAndWrittenBack(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		t.Run("version "+version, func(t *testing.T) {
			f := newFixture(t)
			for _, n := range []string{"dir/b2.txt", "dir/b.txt.d/x", strings.Repeat("long/", 900) + "x"} {
				if len(n) < 4096 {
					f.git("update-index", "--add", "--cacheinfo", "100644,"+f.git("rev-parse", ":a.txt")+","+n)
				}
			}
			f.git("update-index", "--index-version", version)
			if version == "3" {
				f.git("update-index", "--skip-worktree", "a.txt")
			}
			want := f.git("ls-files", "-s", "-v", "--debug")
			path := filepath.Join(f.dir, ".git/index")
			b, err := os.ReadFile(path)
			must(t, err)
			entries, err := parseIndex(b, 20)
			must(t, err)
			out, err := formatIndex(entries, 20)
			must(t, err)
			must(t, os.WriteFile(path, out, 0o644))
			// The flags line shows the version's own bits; everything else is kept.
			strip := func(s string) string {
				var keep []string
				for line := range strings.Lines(s) {
					line, _, _ = strings.Cut(line, "\tflags:")
					keep = append(keep, strings.TrimRight(line, "\n"))
				}
				return strings.Join(keep, "\n")
			}
			equal(t, "entries", strip(f.git("ls-files", "-s", "-v", "--debug")), strip(want))
			equal(t, "fsck", f.git("fsck", "--no-dangling"), "")
		})
	}
}

func FuzzIndex(f *testing.F) {
	x := newFixture(f)
	for _, version := range []string{"2", "4"} {
		x.git("update-index", "--index-version", version)
		b, err := os.ReadFile(filepath.Join(x.dir, ".git/index"))
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseIndex(b, 20)
		if err != nil {
			if !errors.Is(err, ErrIndex) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		for _, e := range entries {
			if !safePath(e.Path) {
				t.Fatalf("an unsafe path came through: %q", e.Path)
			}
		}
		out, err := formatIndex(entries, 20)
		must(t, err)
		again, err := parseIndex(out, 20)
		must(t, err)
		twice, err := formatIndex(again, 20)
		must(t, err)
		if !bytes.Equal(out, twice) {
			t.Fatal("what was written is not what is read")
		}
	})
}

func TestPathsThatLeaveTheTreeAreUnsafe(t *testing.T) {
	for _, p := range []string{"", "/a", "a//b", "a/", "../a", "a/../b", "a/./b", ".git", ".GIT/config", "a/.git/x", "a\x00b"} {
		if safePath(p) {
			t.Errorf("%q is taken for safe", p)
		}
	}
	for _, p := range []string{"a", "a/b", "-a", "a b", ".gitignore", "a/.gitmodules", "a\nb", "..a"} {
		if !safePath(p) {
			t.Errorf("%q is taken for unsafe", p)
		}
	}
}
