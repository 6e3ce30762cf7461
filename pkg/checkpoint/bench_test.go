package checkpoint_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
)

// BenchmarkWorktreeOf500MB measures the first checkpoint of a large worktree
// whose files are those of its commit, one with 50 MB beside them, and the small
// increments after that; then a restore of it all.
func BenchmarkWorktreeOf500MB(b *testing.B) {
	dir := b.TempDir()
	random := rand.NewChaCha8([32]byte{})
	content := make([]byte, 250_000)
	for i := range 2000 {
		if _, err := random.Read(content); err != nil {
			b.Fatal(err)
		}
		p := filepath.Join(dir, fmt.Sprintf("d%d/f%d", i%100, i))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(p, content, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	blobs, _ := base(b, dir)
	parts := []checkpoint.Part{{Name: "tree", Dir: dir, Base: blobs}}
	late := func() time.Time { return time.Now().Add(time.Hour) } // every file is old
	took := map[string]time.Duration{}
	var first, big, small checkpoint.Stats
	for i := 0; b.Loop(); i++ {
		d := newDepot()
		s := checkpoint.NewSaver(d, key(b), 1, nil, late)
		save := func(what string) checkpoint.Stats {
			began := time.Now()
			_, st, _, err := s.Save(b.Context(), "base", parts)
			if err != nil {
				b.Fatal(err)
			}
			took[what] += time.Since(began)
			return st
		}
		first = save("first")
		for n := range 200 {
			if _, err := random.Read(content); err != nil {
				b.Fatal(err)
			}
			write(b, dir, fmt.Sprintf("new/f%d", n), string(content))
		}
		big = save("big")
		write(b, dir, "small", fmt.Sprint("an edit ", i))
		small = save("small")
		save("none")
		began := time.Now()
		m, err := checkpoint.Load(b.Context(), d, key(b), d.at)
		if err != nil {
			b.Fatal(err)
		}
		to := filepath.Join(b.TempDir(), "tree")
		if err := checkpoint.Restore(b.Context(), d, key(b), m, b.TempDir(), map[string]checkpoint.Target{"tree": {Dir: to}}); err != nil {
			b.Fatal(err)
		}
		took["restore"] += time.Since(began)
		if err := os.RemoveAll(filepath.Join(dir, "new")); err != nil {
			b.Fatal(err)
		}
	}
	for what, d := range took {
		b.ReportMetric(float64(d.Milliseconds())/float64(b.N), what+"-ms/op")
	}
	b.ReportMetric(float64(first.Stored), "first-bytes")
	b.ReportMetric(float64(big.Stored), "big-bytes")
	b.ReportMetric(float64(small.Stored), "small-bytes")
	b.ReportMetric(float64(small.Read), "small-read-bytes")
}
