package seatbelt_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/sandbox/seatbelt"
)

func plan() sandbox.Plan {
	return sandbox.Plan{
		Argv: []string{"/bin/sh"}, Dir: "/Users/ada/state/tree",
		Mounts: []sandbox.Mount{
			{Source: "/Users/ada/repo/.git"},
			{Source: "/Users/ada/state/config", Target: "/Users/ada/repo/.git/config"},
			{Source: "/Users/ada/state/tree", RW: true},
			{Source: "/Users/ada/repo/.git/worktrees/lazy-3f2a9c1e", RW: true},
			{Source: "/Users/ada/state/objects", RW: true},
			{Source: "/Users/ada/state/tree/.git"},
			{Source: `/Users/ada/odd "name"\`},
		},
		Helper: "/opt/lazy/lazy-agent", Sockets: "/Users/ada/state/run",
	}
}

func TestTheProfileOfAPlanIsTheGoldenOne(t *testing.T) {
	req.Covers(t, "AG-028")
	got := seatbelt.Renderer{Home: "/Users/ada/state/home", Tmp: "/Users/ada/state/tmp"}.Profile(plan())
	golden := filepath.Join("testdata", "plan.sb")
	if os.Getenv("UPDATE") == "1" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Fatalf("the profile changed (UPDATE=1 rewrites it):\n%s", got)
	}
}

func TestTheCommandCarriesThePlansVariablesOnly(t *testing.T) {
	c, err := seatbelt.Renderer{Home: "/h", Tmp: "/t"}.Command(t.Context(), plan())
	if err != nil {
		t.Fatal(err)
	}
	if c.Args[0] != "/usr/bin/sandbox-exec" || c.Args[3] != "--" || c.Args[4] != "/bin/sh" || c.Dir != "/Users/ada/state/tree" {
		t.Fatalf("command: %q in %s", c.Args, c.Dir)
	}
	for _, kv := range c.Env {
		if kv == "PATH="+os.Getenv("PATH") {
			t.Fatal("the environment was inherited")
		}
	}
}
