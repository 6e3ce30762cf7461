package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

const whole = `
network = "allow:proxy.golang.org,example.com"
publish = "turn"

[project]
name = "shop"

[agent]
agent_id = "scripted"
watchdog_output_timeout_ms = 60000
token_budget = 5000000

[agents.scripted]
command = ["/bin/sh", "-c", "true"]
env = { LANG = "C" }

[workspace]
setup = "npm ci"
copy = [".env.example"]

[protection]
paths = ["infra/**"]

[runner]
max_turn_age = "90m"

[limits]
processes = 200
memory = "4GB"
disk = "512MB"
open_files = 0

[accept]
tiny_lines = 5
tiny_files = 1

[usage_pause]
threshold = 80
`

func TestEverySettingIsRead(t *testing.T) {
	got, problems := config.ParseProject([]byte(whole))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := config.Project{
		Name: "shop", Agent: "scripted", Watchdog: time.Minute,
		Agents: map[string]config.Agent{"scripted": {
			Command: []string{"/bin/sh", "-c", "true"}, Env: map[string]string{"LANG": "C"},
		}},
		Setup: "npm ci", Copy: []string{".env.example"},
		Network: "allow:proxy.golang.org,example.com", Publish: "turn",
		Protected: []string{"infra/**"}, TurnAge: 90 * time.Minute, TinyLines: 5, TinyFiles: 1, UsagePause: 80, TokenBudget: 5_000_000,
		Limits: config.Limits{Processes: 200, MemoryBytes: 4 << 30, DiskBytes: 512 << 20},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAFileThatSaysLittleGetsTheDefaults(t *testing.T) {
	got, problems := config.ParseProject([]byte("[agents.command]\ncommand = [\"true\"]\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := config.Defaults()
	want.Agents = map[string]config.Agent{"command": {Command: []string{"true"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEveryProblemIsListedByName(t *testing.T) {
	_, problems := config.ParseProject([]byte(`
publish = "daily"
netwerk = "open"
network = "allow:"
[project]
name = 7
[agent]
agent_id = "claude"
watchdog_output_timeout_ms = -5
token_budget = 20
[agents.command]
command = []
[agents.other]
command = ["x"]
env = { A = 1 }
[workspace]
copy = ["../secrets", "/etc/passwd"]
[runner]
max_turn_age = "soon"
[limits]
processes = 3
memory = "4 apples"
disk = "1MB"
open_files = "many"
[accept]
tiny_lines = "many"
[usage_pause]
threshold = 101
[deploy]
now = true
`))
	for _, want := range []string{
		`publish: expected "submit" or "turn", got "daily"`,
		`netwerk: there is no such setting; did you mean network?`,
		`network: "" is not a host name`,
		`project.name: expected text in quotes, got a number`,
		`agent.agent_id: agent "claude" has no [agents.claude] section`,
		`agent.watchdog_output_timeout_ms: expected at least 1000, got -5`,
		`agent.token_budget: 20 tokens are not enough for one model call; expected 1000 or more, or 0 for no bound`,
		`agents.command.command: expected a program`,
		`agents.other.env.A: expected text in quotes, got a number`,
		`workspace.copy: "../secrets" leaves the repository`,
		`workspace.copy: "/etc/passwd" leaves the repository`,
		`runner.max_turn_age: expected a time of at least a minute`,
		`limits.processes: expected 16 to 4194304, or 0 for no limit, got 3`,
		`limits.memory: expected a size of at least 64MB`,
		`limits.disk: expected a size of at least 64MB`,
		`limits.open_files: expected a whole number, got text`,
		`accept.tiny_lines: expected a whole number, got text`,
		`usage_pause.threshold: expected a percentage`,
		`deploy: there is no such setting`,
	} {
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, want) }) {
			t.Errorf("no problem begins with %q", want)
		}
	}
	if len(problems) != 19 {
		t.Errorf("got %d problems, want 19:\n%s", len(problems), strings.Join(problems, "\n"))
	}
}

func TestTextThatIsNotTOMLIsPlaced(t *testing.T) {
	_, problems := config.ParseProject([]byte("a = 1\nb = = 2\n"))
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "line 2, column ") {
		t.Errorf("got %q", problems)
	}
}

func TestABadFileIsARefusalThatNamesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), config.File)
	if err := os.WriteFile(path, []byte("nope = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := config.LoadProject(path)
	if fault.Exit(err) != 2 || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "nope: there is no such setting") {
		t.Errorf("got %v", err)
	}
}

func TestStateFollowsLazyHomeThenHome(t *testing.T) {
	root := filepath.Join(t.TempDir(), "My Répo!")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"LAZY_HOME": "/state", "HOME": "/home/a"}, "/state"},
		{map[string]string{"HOME": "/home/a"}, "/home/a/.lazy"},
	} {
		p, err := config.PathsFor(root, func(k string) string { return c.env[k] })
		if err != nil {
			t.Fatal(err)
		}
		if p.Home != c.want {
			t.Errorf("got %s, want %s", p.Home, c.want)
		}
		name := filepath.Base(p.Dir)
		if !strings.HasPrefix(name, "My-R-po-") || len(name) != len("My-R-po-")+8 {
			t.Errorf("got the folder %q", name)
		}
	}
	_, err := config.PathsFor(root, func(string) string { return "" })
	if fault.Exit(err) != 2 || !strings.Contains(fault.Of(err).Next[0].Text, "LAZY_HOME") {
		t.Errorf("without a home: %v", err)
	}
}

func TestTwoRepositoriesOfOneNameHaveTwoStates(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "app"), filepath.Join(t.TempDir(), "app")
	var dirs []string
	for _, root := range []string{a, b} {
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := config.PathsIn("/state", root)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, p.Dir)
	}
	if dirs[0] == dirs[1] {
		t.Error("both lie in", dirs[0])
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(a, link); err != nil {
		t.Skip("no links here:", err)
	}
	if p, err := config.PathsIn("/state", link); err != nil || p.Dir != dirs[0] {
		t.Errorf("a link leads to %s, %v; want %s", p.Dir, err, dirs[0])
	}
}

func TestTheProjectIsFoundFromBelowAndFromAWorktree(t *testing.T) {
	main := t.TempDir()
	deep := filepath.Join(main, "a", "b")
	worktree := t.TempDir()
	state := t.TempDir() // of a task, whose workspace has its git directory beside it
	tree, own := filepath.Join(state, "tree"), filepath.Join(state, "worktrees", "lazy-x")
	for _, dir := range []string{deep, filepath.Join(main, ".git", "worktrees", "w"), tree, own} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := config.FindRoot(deep); fault.Exit(err) != 2 || !strings.Contains(fault.Of(err).Next[0].Text, "lazy init") {
		t.Errorf("without lazy.toml: %v", err)
	}
	for path, text := range map[string]string{
		filepath.Join(main, config.File):     "",
		filepath.Join(worktree, ".git"):      "gitdir: " + filepath.Join(main, ".git", "worktrees", "w") + "\n",
		filepath.Join(worktree, config.File): "",
		filepath.Join(tree, ".git"):          "gitdir: " + own + "\n",
		filepath.Join(tree, config.File):     "",
		filepath.Join(own, "commondir"):      filepath.Join(main, ".git") + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{main, deep, worktree, tree} {
		if got, err := config.FindRoot(dir); err != nil || got != main {
			t.Errorf("from %s: got %s, %v; want %s", dir, got, err, main)
		}
	}
}

func TestAPlaneFileIsPrivateAndABrokenOneCountsAsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "plane.json")
	if _, ok, err := config.ReadPlane(path); ok || err != nil {
		t.Errorf("absent: %v %v", ok, err)
	}
	want := config.Plane{URL: "http://127.0.0.1:26024", PID: 7, Started: time.Unix(1, 0).UTC(), Version: "v", Project: "p", Root: "/r"}
	if err := config.WritePlane(path, want); err != nil {
		t.Fatal(err)
	}
	got, ok, err := config.ReadPlane(path)
	if err != nil || !ok || got != want {
		t.Errorf("got %+v %v %v", got, ok, err)
	}
	for at, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %o", at, info.Mode(), err, mode)
		}
	}
	if err := os.WriteFile(path, []byte(`{"url":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := config.ReadPlane(path); ok || err != nil {
		t.Errorf("broken: %v %v", ok, err)
	}
}

func FuzzParseProjectNeverPanics(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("[agents]\ncommand = 1\n[agent]\nagent_id = \"\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, problems := config.ParseProject(text)
		if len(problems) == 0 {
			if _, ok := p.Agents[p.Agent]; !ok {
				t.Error("a valid project has no default agent")
			}
		}
	})
}
