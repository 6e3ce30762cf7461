package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// A person's own filter that fails refuses a landing by name, at whichever point
// git meets it, and the checkout is as it was.
func TestALandingUnderAFailingFilterIsRefusedByNameAndWritesNothing(t *testing.T) {
	req.Covers(t, "AP-013", "P12")
	cases := map[string]struct {
		setup func(f *fixture)
		file  string
	}{
		"clean, a file that is landed": {func(f *fixture) {
			f.write(".gitattributes", "a.txt filter=mine\n")
			f.git("config", "filter.mine.clean", "false")
			f.write("a.txt", "a\n")
			later := time.Now().Add(time.Hour) // a new time for sure: git has to read it again
			must(f.t, os.Chtimes(filepath.Join(f.dir, "a.txt"), later, later))
		}, "a.txt"},
		"clean, a file elsewhere": {func(f *fixture) {
			f.write(".gitattributes", "other.txt filter=mine\n")
			f.git("config", "filter.mine.clean", "false")
			f.write("other.txt", "0ther\n") // of the same size, and of another time for sure: git has to read it
			later := time.Now().Add(time.Hour)
			must(f.t, os.Chtimes(filepath.Join(f.dir, "other.txt"), later, later))
		}, "other.txt"},
		"smudge": {func(f *fixture) {
			f.git("config", "filter.mine.smudge", "false")
		}, "new/file.txt"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.write("other.txt", "other\n")
			if name == "smudge" {
				f.write(".gitattributes", "new/file.txt filter=mine\n")
			}
			f.commit("more")
			f.git("config", "filter.mine.required", "true")
			sq, sha := f.planned()
			c.setup(f)
			head, before := f.git("rev-parse", "main"), snapshotOf(t, f.dir)
			err := f.repo.Land(t.Context(), sq, sha)
			e := fault.Of(err)
			if !errors.Is(err, ErrFilter) || e.Kind != fault.Conflict || e.Code != FilterFailed || errors.Is(err, errHalf) {
				t.Fatalf("landing: %v", err)
			}
			if !strings.Contains(e.Public, `"mine"`) || !strings.Contains(e.Public, `"`+c.file+`"`) || len(e.Next) != 2 {
				t.Errorf("it says %q, next %v", e.Public, e.Next)
			}
			equal(t, "main", f.git("rev-parse", "main"), head)
			if after := snapshotOf(t, f.dir); after != before {
				t.Errorf("the checkout changed:\n%s\nwas\n%s", after, before)
			}
			for _, left := range []string{"index.lock", "lazy/landing.json"} {
				if _, err := os.Lstat(filepath.Join(f.dir, ".git", left)); err == nil {
					t.Errorf("%s was left", left)
				}
			}
			// The way out that it names is one.
			f.git("config", "filter.mine.required", "false")
			if name == "clean, a file elsewhere" || name == "smudge" {
				must(t, f.repo.Land(t.Context(), sq, sha))
				equal(t, "main", f.git("rev-parse", "main"), sha)
			}
		})
	}
}

func TestALandingThroughAWorkingFilterIsWrittenThroughIt(t *testing.T) {
	req.Covers(t, "AP-013")
	f := newFixture(t)
	f.write(".gitattributes", "new/file.txt filter=mine\n")
	f.commit("more")
	for _, kv := range [][2]string{{"required", "true"}, {"smudge", "tr a-z A-Z"}, {"clean", "tr A-Z a-z"}} {
		f.git("config", "filter.mine."+kv[0], kv[1])
	}
	sq, sha := f.planned()
	must(t, f.repo.Land(t.Context(), sq, sha))
	equal(t, "new/file.txt", f.read("new/file.txt"), "NEW\n")
	equal(t, "status", f.git("status", "--porcelain"), "")
}

// snapshotOf is every file below dir but git's own, with its content.
func snapshotOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			c, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			b.WriteString(p + ": " + string(c) + "\n")
		}
		return nil
	}))
	return b.String()
}
