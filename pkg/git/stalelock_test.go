package git

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

func TestALockThatAKilledGitLeftIsRemovedOnlyWhenOldAndOurs(t *testing.T) {
	f := newFixture(t)
	head := f.git("rev-parse", "main")
	lock := func(ref string, age time.Duration) {
		p := filepath.Join(f.dir, ".git", ref+".lock")
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, nil, 0o644))
		at := time.Now().Add(-age)
		must(t, os.Chtimes(p, at, at))
	}
	lock("refs/heads/lazy/old", time.Hour)
	must(t, f.repo.MoveRef(t.Context(), "refs/heads/lazy/old", head, ""))
	equal(t, "the ref", f.git("rev-parse", "lazy/old"), head)
	lock("refs/heads/lazy/fresh", 0)
	lock("refs/heads/mine", time.Hour)
	for _, ref := range []string{"refs/heads/lazy/fresh", "refs/heads/mine"} {
		err := f.repo.MoveRef(t.Context(), ref, head, "")
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%s: %v, want unavailable", ref, err)
		}
	}
}
