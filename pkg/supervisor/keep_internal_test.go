package supervisor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestAWorkspaceIsSavedEvery30Seconds(t *testing.T) {
	req.Covers(t, "UW-008")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, n := time.Now(), 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			each(ctx, names.CheckpointPeriod, func() { n++ })
		}()
		time.Sleep(95 * time.Second)
		cancel()
		<-done
		if n != 3 || time.Since(began) != 95*time.Second {
			t.Errorf("%d saves in 95 s, want 3", n)
		}
	})
}

func TestWhatGitIgnoresIsLeftOutButForWhatTheProjectKeeps(t *testing.T) {
	ignored := map[string]bool{".env": true, "node_modules": true, "build": true, "sub/cache": true}
	skip := unkept(ignored, []string{".env", "build/keep/this", "build/x.txt"})
	for p, want := range map[string]bool{
		".git": true, "a.txt": false, "sub": false, "sub/a": false, ".env": false, "node_modules": true, "node_modules/x": true,
		"build": false, "build/keep": false, "build/keep/this": false, "build/keep/this/deep": false, "build/keep/other": true,
		"build/x.txt": false, "build/y.txt": true, "sub/cache": true, "sub/cache/z": true, "sub/.git": false,
	} {
		dir := p == "build" || p == "build/keep" || p == "node_modules" || p == "sub" || p == "sub/cache"
		if got := skip(p, dir); got != want {
			t.Errorf("%s is left out: %t, want %t", p, got, want)
		}
	}
}
