package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// repository makes a git repository with one commit and a lazy.toml.
func repository(t testing.TB, toml string) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "Ada"}, {"config", "user.email", "ada@example.com"},
	} {
		run(t, dir, args...)
	}
	write(t, filepath.Join(dir, "README.md"), "# a project\n")
	write(t, filepath.Join(dir, config.File), toml)
	run(t, dir, "add", "-A")
	run(t, dir, "commit", "-q", "-m", "start")
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

const scripted = "[agent]\nagent_id = \"command\"\n\n[agents.command]\ncommand = [\"/bin/sh\", \"-c\", \"true\"]\n"

func up(t testing.TB, paths config.Paths) *local.Plane {
	t.Helper()
	p, err := local.Up(context.WithoutCancel(t.Context()), local.Options{Paths: paths, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestAPlaneStartedAgainHasEverythingUnderTheSameCredential(t *testing.T) {
	req.Covers(t, "ID-008", "ID-014", "RP-018")
	root := repository(t, scripted)
	paths, err := config.PathsIn(t.TempDir(), root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := local.Up(t.Context(), local.Options{Paths: paths, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c := client.Client{Base: p.URL, Token: p.Token}
	var made struct {
		Code string `json:"code"`
	}
	if err := c.Call(t.Context(), "createTask", map[string]any{"goal": "Fix the login", "prompt": "do it"}, &made); err != nil {
		t.Fatal(err)
	}
	token, url := p.Token, p.URL
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(paths.Plane()); err == nil {
		t.Error("a closed plane still says where it answers")
	}
	again := up(t, paths)
	if again.Token != token || again.URL != url {
		t.Errorf("the plane came back as %s with another credential: %t", again.URL, again.Token != token)
	}
	c = client.Client{Base: again.URL, Token: again.Token}
	var list struct {
		Tasks []struct {
			Code   string `json:"code"`
			Status string `json:"status"`
		} `json:"tasks"`
	}
	if err := c.Call(t.Context(), "listTasks", map[string]any{}, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Tasks) != 1 || list.Tasks[0].Code != made.Code || list.Tasks[0].Status != "backlog" {
		t.Errorf("the list is %+v, want %s", list.Tasks, made.Code)
	}
}
