package supervisor

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/sandbox/bwrap"
	"github.com/lazyplane/lazyplane/pkg/sandbox/seatbelt"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const (
	mine   = "3f2a9c1e"
	theirs = "77aa9c1e"
)

// private are all paths of the plane's state, read off its code: whatever path
// config.Paths can name, the state of other tasks, and the runs, whose directories
// hold tokens. The places that a task's own agent works in are not among them.
func private(t *testing.T, p config.Paths) map[string]string {
	t.Helper()
	all := map[string]string{
		"the state directory": p.Dir, "the state of all projects": p.Home,
		"another task": p.Task(theirs), "another task's run": p.Run(theirs, 1),
		"the tokens of this run": filepath.Join(p.Run(mine, 1), spool.TokenFile), "the start of this run": filepath.Join(p.Run(mine, 1), spool.StartFile),
		"an earlier run": p.Run(mine, 0), "the record of the workspace": filepath.Join(p.Task(mine), "workspace.json"),
		"recovered edits": filepath.Join(p.Dir, "recovery"),
	}
	v := reflect.ValueOf(p)
	for i := range v.NumMethod() {
		m := v.Type().Method(i)
		if m.Type.NumIn() != 1 || m.Type.NumOut() != 1 || m.Type.Out(0).Kind() != reflect.String {
			continue
		}
		all["Paths."+m.Name] = v.Method(i).Call(nil)[0].String()
	}
	if len(all) < 16 {
		t.Fatalf("config.Paths names only %d paths", len(all))
	}
	delete(all, "Paths.Config") // in the repository, for everybody
	return all
}

func inside(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// Every way in which a run is started, as the code makes it: no mount, no variable
// and no argument leads to the plane's state, to a credential, or to another task.
func TestNoLaunchPathReachesStateOrAnotherIdentity(t *testing.T) {
	req.Covers(t, "ID-024", "ID-007", "AG-022")
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.PathsIn(filepath.Join(home, "lazy"), home)
	if err != nil {
		t.Fatal(err)
	}
	secret := private(t, p)
	rendered := 0
	for _, network := range []string{"none", "open", "allow:example.com"} {
		for _, host := range []bool{false, true} {
			for _, access := range []*model.Access{nil, {Provider: "claude", Secret: "canary-model"}} {
				ws := git.Workspace{
					State: p.Task(mine), Tree: filepath.Join(p.Task(mine), "tree"), Objects: filepath.Join(p.Task(mine), "objects"),
					GitDir: filepath.Join(p.Task(mine), "worktrees", "lazy-"+mine), Shared: filepath.Join(home, ".git"),
				}
				r := &run{
					Options: Options{Dir: p.Run(mine, 1), Bin: filepath.Join(p.Bin(), "lazy-agent-0815")}, access: access,
					log: slog.New(slog.NewTextHandler(io.Discard, nil)),
					cmd: turn.Command{
						State: ws.State, Tree: ws.Tree, GitDir: ws.GitDir, Objects: ws.Objects, Shared: ws.Shared,
						Network: network, Host: host, Limits: turn.Limits{Processes: 10},
					},
				}
				if err := os.MkdirAll(r.boxDir(), 0o700); err != nil {
					t.Fatal(err)
				}
				plan, err := r.plan(r.boxDir())
				if err != nil {
					t.Fatal(err)
				}
				for _, rend := range []sandbox.Renderer{&bwrap.Renderer{}, seatbelt.Renderer{Home: filepath.Join(r.boxDir(), "home"), Tmp: os.TempDir()}} {
					r.view = rend.View(plan)
					if plan.Argv, err = r.helperArgv(plan); err != nil {
						t.Fatal(err)
					}
					rendered++
					reaches(t, plan, secret, p)
				}
			}
		}
	}
	if rendered != 24 {
		t.Errorf("%d launches were looked at", rendered)
	}
}

func reaches(t *testing.T, plan sandbox.Plan, secret map[string]string, p config.Paths) {
	t.Helper()
	// What an agent is given below the state directory: its own workspace's parts,
	// its own CLI's directory, the sockets, and the helper, a program.
	given := []string{
		filepath.Join(p.Task(mine), "tree"), filepath.Join(p.Task(mine), "objects"), filepath.Join(p.Task(mine), "worktrees"),
		filepath.Join(p.Task(mine), "config"), filepath.Join(p.Task(mine), "nothing"),
		filepath.Join(spool.BoxDir(p.Run(mine, 1)), "agent"),
	}
	for _, m := range plan.Mounts {
		for what, path := range secret {
			if inside(path, m.Source) {
				t.Errorf("the mount %s shows %s", m.Source, what)
			}
		}
		if inside(m.Source, p.Home) && !slices.ContainsFunc(given, func(g string) bool { return inside(m.Source, g) }) {
			t.Errorf("the mount %s lies in the state and is none of the task's own", m.Source)
		}
	}
	if box := spool.BoxDir(p.Run(mine, 1)); plan.Sockets != filepath.Join(box, "run") && inside(plan.Sockets, p.Dir) {
		t.Errorf("the sockets lie at %s", plan.Sockets)
	}
	for _, s := range slices.Concat(plan.Env, plan.Argv) {
		for what, path := range secret {
			if what != "Paths.Bin" && what != "the state directory" && what != "the state of all projects" && strings.Contains(s, path) {
				t.Errorf("%q names %s", s, what)
			}
		}
		if strings.Contains(s, "lzy_") || strings.Contains(s, "canary") {
			t.Errorf("%q holds a credential", s)
		}
	}
}
