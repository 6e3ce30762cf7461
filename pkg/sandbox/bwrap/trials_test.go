package bwrap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// The trials that a naive sandbox let through, each by what has to hold.

func TestTrialAFalseObjectUnderAKnownIdReachesNobody(t *testing.T) {
	req.Covers(t, "GT-026", "GT-004")
	b := newBox(t)
	known := b.git("rev-parse", "main:a.txt")
	b.fails("rm -f "+b.ws.Shared+"/objects/"+known[:2]+"/"+known[2:], "Read-only")
	// A zlib stream of another blob, stored under the id of main's file.
	b.works("id=" + known + `; o=` + b.ws.Objects + `; new=$(printf 'evil\n' | git hash-object -w --stdin)
		mkdir -p $o/${id%${id#??}} && cp $o/${new%${new#??}}/${new#??} $o/${id%${id#??}}/${id#??}
		chmod u+w $o/${id%${id#??}}/${id#??}; test -f $o/${id%${id#??}}/${id#??}`)
	equal(t, "the person reads", b.git("show", "main:a.txt"), "a")
	b.works("echo work > work.txt && git add -A")
	c := b.commit("work")
	equal(t, "main in the new commit", b.git("show", c.Commit+":a.txt"), "a")
	equal(t, "fsck", b.git("fsck", "--strict", "--no-dangling"), "")
	sq, err := b.repo.PlanSquash(t.Context(), "main", c.Commit)
	must(t, err)
	equal(t, "landing", strings.Join(sq.Files, " "), "work.txt")
	equal(t, "landed content", b.git("show", sq.Tree+":a.txt"), "a")
}

func TestTrialAHostileCommonDirectoryRunsNothing(t *testing.T) {
	req.Covers(t, "GT-024", "GT-003")
	b := newBox(t)
	b.works(`cp -r ` + b.ws.Shared + ` common 2>/dev/null
		git config -f common/config core.fsmonitor "touch ` + b.ws.Tree + `/ran; false"`)
	b.fails("echo "+b.ws.Tree+"/common > "+b.ws.GitDir+"/commondir", "Read-only")
	b.fails("rm "+b.ws.GitDir+"/commondir", "busy")
	b.everything()
	if _, err := os.Lstat(filepath.Join(b.ws.Tree, "ran")); err == nil {
		t.Fatal("a command of the agent ran on the trusted side")
	}
}

func TestTrialANestedRepositoryRunsNothing(t *testing.T) {
	req.Covers(t, "GT-024")
	b := newBox(t)
	b.works(`export GIT_OBJECT_DIRECTORY=; unset GIT_OBJECT_DIRECTORY
		git init -q nested && cd nested && git config user.name x && git config user.email x@x
		echo n > n && git add n && git commit -qm n
		git config core.fsmonitor "touch ` + b.ws.Tree + `/ran; false"`)
	b.works("git add nested 2>/dev/null; git ls-files -s nested | grep -q ^160000")
	b.everything()
	if _, err := os.Lstat(filepath.Join(b.ws.Tree, "ran")); err == nil {
		t.Fatal("a command of the agent ran on the trusted side")
	}
}

func TestTrialAlternatesOfTheTaskCannotBeChanged(t *testing.T) {
	req.Covers(t, "GT-002")
	b := newBox(t)
	b.fails("echo /tmp >> "+b.ws.Objects+"/info/alternates", "Read-only")
	b.fails("mv "+b.ws.Objects+"/info "+b.ws.Objects+"/x", "busy")
}

func TestTrialALandingOnTheCheckedOutBranchLeavesACleanStatus(t *testing.T) {
	req.Covers(t, "AP-005", "AP-013")
	b := newBox(t)
	b.works("echo changed > a.txt && rm dir/b.txt && echo new > new.txt")
	c := b.commit("work")
	sq, err := b.repo.PlanSquash(t.Context(), "main", c.Commit)
	must(t, err)
	sha, err := b.repo.CommitSquash(t.Context(), sq, git.WithMarker("work", "t"), author, when)
	must(t, err)
	must(t, b.repo.Land(t.Context(), sq, sha))
	equal(t, "status", b.git("status", "--porcelain"), "")
	equal(t, "main", b.git("rev-parse", "main"), sha)
}

// everything runs each trusted operation on the workspace once. Refusals are
// fine here; what counts is what they did not do.
func (b *box) everything() {
	b.t.Helper()
	ctx := b.t.Context()
	_, err := b.u.Status(ctx)
	must(b.t, err)
	b.write(filepath.Join(b.ws.Tree, "work.txt"), "work\n")
	b.commit("work")
	b.write(filepath.Join(b.dir, "up.txt"), "up\n")
	b.git("add", "up.txt")
	b.git("commit", "-q", "-m", "up")
	tip := b.git("rev-parse", "lazy/fix")
	m, err := b.u.MergeInto(ctx, b.git("rev-parse", "main"), "Merge main", author, when)
	must(b.t, err)
	must(b.t, b.repo.MoveRef(ctx, "refs/heads/lazy/fix", m.Commit, tip))
	must(b.t, b.u.Advance(ctx, m.Commit))
	to := git.Recovery{Dir: filepath.Join(b.home, "recovery"), When: when}
	_, err = b.u.SaveRecovery(ctx, to, "close")
	must(b.t, err)
	_, err = b.u.Settle(ctx, to)
	must(b.t, err)
	_, err = b.repo.PlanSquash(ctx, "main", m.Commit)
	must(b.t, err)
	_, err = b.repo.Diff(ctx, b.git("rev-parse", "other"), m.Commit, git.DiffOptions{})
	must(b.t, err)
}
