package git

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestABundleCarriesACommitThatNoRefNames(t *testing.T) {
	f := newFixture(t)
	other := filepath.Join(filepath.Dir(f.dir), "other")
	f.git("clone", "-q", f.dir, other)
	there, err := Open(t.Context(), other)
	must(t, err)
	ws, u := f.workspace()
	write(t, ws.Tree, "a.txt", "work\n")
	c, err := u.Prepare(t.Context(), CommitSpec{Message: "work", Author: author, When: when})
	must(t, err)
	var b bytes.Buffer
	must(t, f.repo.Bundle(t.Context(), &b, c.Parent, c.Commit))
	whole := b.Bytes()
	tip, err := there.Unbundle(t.Context(), bytes.NewReader(whole))
	must(t, err)
	equal(t, "tip", tip, c.Commit)
	equal(t, "content", gitIn(t, other, nil, "show", tip+":a.txt"), "work")
	if _, err := there.Unbundle(t.Context(), bytes.NewReader(whole[:len(whole)-30])); !errors.Is(err, ErrBadObject) {
		t.Fatalf("a damaged bundle: %v", err)
	}
}

func TestSweepingRemovesWhatDeadProcessesLeft(t *testing.T) {
	f := newFixture(t)
	_, err := f.repo.newPrivate(f.repo.scratch()) // never closed
	must(t, err)
	must(t, f.repo.Sweep())
	if _, err := os.Stat(f.repo.scratch()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("scratch: %v", err)
	}
	must(t, f.repo.Sweep())
	_, u := f.workspace()
	_, err = f.repo.PlanSquash(t.Context(), "main", u.tip)
	must(t, err)
}
