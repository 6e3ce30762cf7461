package plain_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/sandbox/plain"
)

func TestAHostProcessInheritsNothingButThePlan(t *testing.T) {
	t.Setenv("LAZY_TEST_CANARY", "canary")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := plain.Renderer{Home: dir, Path: os.Getenv("PATH")}
	c, err := r.Command(t.Context(), sandbox.Plan{Argv: []string{"sh", "-c", "env; pwd"}, Dir: dir, Env: []string{"GIT_OBJECT_DIRECTORY=/o"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GIT_OBJECT_DIRECTORY=/o\n", "HOME=" + dir + "\n", "\n" + dir + "\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("output lacks %q: %s", want, out)
		}
	}
	if strings.Contains(string(out), "canary") {
		t.Errorf("the environment was inherited: %s", out)
	}
	if r.Name() != "host-process" {
		t.Errorf("name: %s", r.Name())
	}
}

func TestAHostProcessFindsItsPartsWhereTheyAre(t *testing.T) {
	v := plain.Renderer{Home: "/h"}.View(sandbox.Plan{Helper: "/opt/lazy-agent", Sockets: "/run/s"})
	if v.Helper != "/opt/lazy-agent" || v.Sockets != "/run/s" || v.Home != "/h" {
		t.Fatalf("view: %+v", v)
	}
}
