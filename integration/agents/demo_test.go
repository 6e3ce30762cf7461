package agents

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/integration/modelfake"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// What a person types: a key is stored, and the demo does the main job with the
// real CLI, in a home and a folder of its own. Before the key is stored it leaves
// nothing behind and says what to type.
func TestTheDemoDoesTheMainJobWithTheRealCLI(t *testing.T) {
	req.Covers(t, "CM-031", "FC-012")
	bin := t.TempDir()
	build := sync.OnceValue(func() error { // lazy and lazy-agent as people have them, side by side
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "build", "-o", bin+string(filepath.Separator),
			"github.com/lazyplane/lazyplane/cmd/lazy", "github.com/lazyplane/lazyplane/cmd/lazy-agent").CombinedOutput()
		if err != nil {
			return fmt.Errorf("build: %w\n%s", err, out)
		}
		return nil
	})
	each(t, func(t *testing.T, c cli) {
		if err := build(); err != nil {
			t.Fatal(err)
		}
		m := modelfake.New(modelfake.Must(`
expect Hello, NAME
reply
  call shell {"command": "printf 'echo \"Hello, $1!\"\\n' > greet.sh && sh test.sh"}
reply
  call lazy_commit {"message": "greet people by name"}
reply
  call lazy_final {"note": "greets by name"}
reply
  say It greets people by name.
`))
		srv := httptest.NewServer(m)
		t.Cleanup(srv.Close)
		home, tmp, repo := t.TempDir(), t.TempDir(), repository(t, c, "")
		lazy := func(in string, args ...string) (string, error) {
			cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, "lazy"), args...)
			cmd.Dir, cmd.Stdin = repo, strings.NewReader(in)
			cmd.Env = append(os.Environ(), "HOME="+home, "LAZY_HOME="+filepath.Join(home, ".lazy"), "TMPDIR="+tmp)
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		t.Cleanup(func() { // storing the key starts one there
			if out, err := lazy("", "down"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		out, err := lazy("", "demo", "--agent", c.id, "--model", c.model)
		if err == nil || !strings.Contains(out, "lazy auth add "+c.provider) {
			t.Errorf("without a key: %v\n%s", err, out)
		}
		if left, _ := filepath.Glob(filepath.Join(tmp, "lazy-demo-*")); len(left) > 0 {
			t.Errorf("without a key it leaves %v", left)
		}
		if out, err = lazy(secret+"\n", "auth", "add", c.provider, "--base-url", srv.URL); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err = lazy("", "demo", "--agent", c.id, "--model", c.model)
		made, _ := filepath.Glob(filepath.Join(tmp, "lazy-demo-*"))
		for _, dir := range made {
			if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(dir, "lazy"), "down").CombinedOutput(); err != nil {
				t.Errorf("lazy down: %v\n%s", err, out)
			}
		}
		if err != nil || len(made) != 1 || !strings.Contains(out, "Done: ") {
			t.Fatalf("%v, made %v\n%s", err, made, out)
		}
		if got := git(t, filepath.Join(made[0], "repo"), "show", "main:greet.sh"); got != `echo "Hello, $1!"` {
			t.Errorf("what landed is %q", got)
		}
		if wrong := m.Wrong(); len(wrong) > 0 || m.Left() > 0 {
			t.Errorf("against the script: %v, %d answers left", wrong, m.Left())
		}
		if strings.Contains(out, secret) {
			t.Error("the demo prints the key")
		}
	})
}
