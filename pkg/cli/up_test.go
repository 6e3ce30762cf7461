package cli_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestUpSaysWhichAgentsLackACredential(t *testing.T) {
	req.Covers(t, "FC-012")
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "lazy.toml"), []byte("[agents.command]\ncommand = [\"true\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	state := filepath.Join(dir, "state")
	e := &cli.Env{
		In: strings.NewReader(""), Out: &out, Err: &errs, Dir: dir, TempDir: dir, Now: time.Now, Alive: cli.ProcessAlive,
		Getenv: func(name string) string {
			if name == "LAZY_HOME" {
				return state
			}
			return ""
		},
		TTY: func(any) bool { return false },
		Up: func(_ context.Context, o cli.UpOptions) error {
			o.Missing(map[string]string{"claude-code": "claude"})
			o.Ready("http://127.0.0.1:1")
			return nil
		},
	}
	if code := cli.Main(t.Context(), e, []string{"up"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for _, want := range []string{"agent claude-code needs a credential", "others run", "lazy auth add claude"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is not said: %s", want, errs.String())
		}
	}
}
