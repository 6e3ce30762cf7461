package git

import (
	"fmt"
	"path/filepath"
	"testing"
)

// filled is a repository with n files beside the fixture's own.
func filled(b *testing.B, n int) *fixture {
	f := newFixture(b)
	for i := range n {
		f.write(fmt.Sprintf("pkg/d%03d/f%05d.txt", i%200, i), fmt.Sprintf("file %d\n", i))
	}
	if n > 0 {
		f.commit("many files")
	}
	return f
}

func benchmarkWorkspace(b *testing.B, files int) {
	f := filled(b, files)
	base := f.git("rev-parse", "main")
	n := 0
	for b.Loop() {
		n++
		name := fmt.Sprintf("t%d", n)
		ws, err := f.repo.CreateWorkspace(b.Context(), WorkspaceSpec{
			StateDir: filepath.Join(f.state(), name), TaskShort: name, Branch: "lazy/" + name, Base: base,
		})
		must(b, err)
		b.StopTimer()
		must(b, f.repo.RemoveWorkspace(b.Context(), ws))
		b.StartTimer()
	}
}

func BenchmarkWorkspaceSmall(b *testing.B)   { benchmarkWorkspace(b, 0) }
func BenchmarkWorkspace20000(b *testing.B)   { benchmarkWorkspace(b, 20000) }
func BenchmarkCommitOneSmall(b *testing.B)   { benchmarkCommit(b, 0) }
func BenchmarkCommitOneOf20000(b *testing.B) { benchmarkCommit(b, 20000) }
func BenchmarkStatusOf20000(b *testing.B) {
	f := filled(b, 20000)
	_, u := f.workspace()
	for b.Loop() {
		st, err := u.Status(b.Context())
		must(b, err)
		equal(b, "dirty", len(st.Dirty), 0)
	}
}

func benchmarkCommit(b *testing.B, files int) {
	f := filled(b, files)
	ws, u := f.workspace()
	n := 0
	for b.Loop() {
		n++
		write(b, ws.Tree, "a.txt", fmt.Sprint(n))
		f.save(u, "work")
	}
}

func BenchmarkLanding(b *testing.B) {
	f := filled(b, 0)
	ws, u := f.workspace()
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		write(b, ws.Tree, "a.txt", fmt.Sprint(n))
		c := f.save(u, "work")
		b.StartTimer()
		sq, err := f.repo.PlanSquash(b.Context(), "main", c.Commit)
		must(b, err)
		sha, err := f.repo.CommitSquash(b.Context(), sq, "land", author, when)
		must(b, err)
		must(b, f.repo.Land(b.Context(), sq, sha))
		b.StopTimer()
		must(b, f.repo.MoveRef(b.Context(), "refs/heads/lazy/fix", sha, c.Commit))
		must(b, u.Advance(b.Context(), sha))
		b.StartTimer()
	}
}
