package git

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestABranchIsFetchedFromOriginAndNothingElseMoves(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.git("branch", "lazy/fix")
	refused := func(want error) {
		t.Helper()
		if sha, err := f.repo.FetchBranch(ctx, "lazy/fix"); !errors.Is(err, want) {
			t.Errorf("fetched %q, %v; want %v", sha, err, want)
		}
	}
	refused(ErrNoRemote)
	origin := filepath.Join(filepath.Dir(f.dir), "origin.git")
	f.git("remote", "add", "origin", origin)
	refused(ErrOffline)
	f.git("init", "-q", "--bare", origin)
	f.git("push", "-q", "origin", "main")
	refused(ErrNotOnRemote)

	base := f.git("rev-parse", "main")
	f.git("checkout", "-q", "lazy/fix")
	theirs := f.commit("theirs")
	f.git("push", "-q", "origin", "lazy/fix")
	f.git("reset", "-q", "--hard", base)
	f.git("update-ref", "-d", "refs/remotes/origin/lazy/fix")
	f.git("reflog", "expire", "--expire=now", "--all")
	f.git("gc", "-q", "--prune=now")
	if ok, err := f.repo.FetchedContains(ctx, "lazy/fix", base); ok || err != nil {
		t.Errorf("before it was fetched: %t, %v", ok, err)
	}
	hook := filepath.Join(f.dir, ".git/hooks/reference-transaction")
	must(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	must(t, os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+filepath.Join(f.dir, "ran")+"\n"), 0o755))
	before, there := f.git("for-each-ref", "refs/heads"), f.git("ls-remote", "origin")
	sha, err := f.repo.FetchBranch(ctx, "lazy/fix")
	if err != nil || sha != theirs {
		t.Errorf("fetched %s, %v; want %s", sha, err, theirs)
	}
	if f.git("for-each-ref", "refs/heads") != before || f.git("ls-remote", "origin") != there {
		t.Error("a branch moved")
	}
	for _, name := range []string{"ran", ".git/FETCH_HEAD"} {
		if _, err := os.Stat(filepath.Join(f.dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	for commit, want := range map[string]bool{base: true, theirs: true, f.repo.none()[1:] + "1": false} {
		if ok, err := f.repo.FetchedContains(ctx, "lazy/fix", commit); ok != want || err != nil {
			t.Errorf("it has %s: %t, %v", commit, ok, err)
		}
	}
	for _, bad := range []string{"", "-x", "a..b", "a b", "*"} {
		if _, err := f.repo.FetchBranch(ctx, bad); !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
