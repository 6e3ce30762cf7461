package supervisor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// The files under copy come from the person's checkout, whose links the repository
// may have brought: none is followed, on either side, and the turn goes on.
func TestCopiesFollowNoLinkOfTheCheckoutOrOfTheWorkspace(t *testing.T) {
	req.Covers(t, "GT-027", "AG-022")
	r := newRig(t, `cat honest.env deep/honest.env > seen; echo ok`, func(c *turn.Command) {
		c.Copy = []string{"link.env", "up/config", "inside/x.env", "out.env", ".GIT/config", "tree.env", "honest.env", "deep/honest.env"}
	})
	secret := filepath.Join(r.dir, "..", "secret")
	must(t, os.WriteFile(secret, []byte("canary\n"), 0o600))
	r.git("config", "remote.origin.url", "https://canary@forge.example/r.git")
	person := func(name, content string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o600))
	}
	person("private/x.env", "canary\n")
	person("tree.env", "NEW=1\n")
	person("honest.env", "A=1\n")
	person("deep/honest.env", "B=2\n")
	for name, to := range map[string]string{"link.env": ".git/config", "up": ".git", "inside": "private", "out.env": secret} {
		must(t, os.Symlink(to, filepath.Join(r.dir, name)))
	}
	// In the workspace the name is taken by a link of the agent's: it leads out.
	planted := filepath.Join(r.dir, "..", "planted")
	must(t, os.Symlink(planted, filepath.Join(r.ws.Tree, "tree.env")))
	r.plane.Do(func(p *planetest.Plane) { p.Command.Source = r.dir })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "honest files", r.file("seen"), "A=1\nB=2\n")
	for _, name := range []string{"link.env", "up", "inside", "out.env", ".GIT"} {
		if _, err := os.Lstat(filepath.Join(r.ws.Tree, name)); err == nil {
			t.Errorf("%s came into the workspace", name)
		}
	}
	if _, err := os.Lstat(planted); err == nil {
		t.Error("a copy went through a link of the workspace")
	}
	if n := strings.Count(resp.Setup, "was not copied"); n != 5 {
		t.Errorf("the turn says of %d files that they were not copied: %q", n, resp.Setup)
	}
}
