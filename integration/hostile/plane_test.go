//go:build linux

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent/claude"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// lab is a person's machine: a repository, a control plane over it, a database
// that listens on loopback, and secrets that are known to the test.
type lab struct {
	t     *testing.T
	base  string
	repo  string
	paths config.Paths
	plane *local.Plane
	place place

	mu      sync.Mutex
	secrets map[string]string // guarded by mu: what it is, by its text
}

const defaultToml = "network = \"open\"\n"

func newLab(t *testing.T, group []entry, host bool) *lab {
	t.Helper()
	if !host {
		renderer(t)
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	l := &lab{t: t, base: base, repo: filepath.Join(base, "repo"), secrets: map[string]string{}}
	must(t, os.Mkdir(l.repo, 0o755))
	home := filepath.Join(base, "person")
	must(t, os.MkdirAll(filepath.Join(home, ".ssh"), 0o700))
	write(t, filepath.Join(home, ".ssh/id_ed25519"), "canary-ssh-key\n")
	db := banner(t)
	l.place = place{dir: l.repo, env: []string{
		"PATH=" + programs(t, base) + ":" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C", "TMPDIR=" + os.TempDir(),
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "LAZY_HOME=" + filepath.Join(base, "lazy"),
		"MODEL=" + modelService(t), "REPO=" + l.repo, "BASE=" + base, "SECRET=" + filepath.Join(home, ".ssh/id_ed25519"), "DB=" + db, "RAN=" + filepath.Join(base, "ran"),
	}}
	l.git("init", "-q", "-b", "main", ".")
	for _, kv := range [][2]string{
		{"user.name", "Ada"},
		{"user.email", "ada@example.com"},
		{"gc.auto", "0"},
		{"remote.origin.url", "https://ada:canary-forge-token@forge.example/o/r.git"},
		{"http.extraheader", "Authorization: canary-forge-header"},
	} {
		l.git("config", kv[0], kv[1])
	}
	for what, text := range map[string]string{
		"the person's ssh key": "canary-ssh-key", "the forge token in a remote's address": "canary-forge-token",
		"the forge header in the configuration": "canary-forge-header", "the planes's environment": "canary-environment",
	} {
		l.secrets[text] = what
	}
	files := map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n", ".gitignore": "*.log\n"}
	toml := defaultToml
	setup := ""
	for _, e := range group {
		maps.Copy(files, e.repo)
		files["attacks/"+e.name+".sh"] = e.files["attack.sh"]
		files["attacks/"+e.name+"-ok.sh"] = "set -e\n" + e.files["benign.sh"]
		if s := e.files["lazy.toml"]; s != "" {
			toml = s
		}
		if s := e.files["setup.sh"]; s != "" {
			setup = s
		}
	}
	files["attacks/victim.sh"], files["attacks/bystander.sh"] = victim, bystander
	files["lazy.toml"] = toml + fmt.Sprintf("\n[project]\nname = \"lab\"\n[agent]\nagent_id = \"command\"\n"+
		"[agents.command]\ncommand = [\"sh\", \"-c\", %q]\n%[2]s[agents.%[3]s]\n%[2]s", runAttack,
		fmt.Sprintf("env = { DB = %q, PERSON = %q, LAZY_STATE = %q, RAN = %q }\n", db, home, filepath.Join(base, "lazy"), filepath.Join(base, "ran")), claude.ID)
	for name, text := range files {
		write(t, filepath.Join(l.repo, name), text)
	}
	l.git("add", "-A")
	l.git("commit", "-q", "-m", "first")
	l.git("branch", "other")
	if setup != "" {
		if out, err := l.place.sh(t.Context(), "set -e\n"+setup); err != nil {
			t.Fatalf("setup: %v: %s", err, out)
		}
	}
	l.paths, err = config.PathsIn(filepath.Join(base, "lazy"), l.repo)
	must(t, err)
	l.up(host)
	return l
}

// up starts the plane with a log that hides nothing.
func (l *lab) up(host bool) {
	l.t.Helper()
	must(l.t, os.MkdirAll(filepath.Dir(l.paths.Log()), 0o700))
	log, err := os.OpenFile(l.paths.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(l.t, err)
	self, err := os.Executable()
	must(l.t, err)
	l.plane, err = local.Up(l.t.Context(), local.Options{
		Paths: l.paths, Bin: self, HostProcess: host, Version: "test",
		Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	must(l.t, err)
	l.t.Cleanup(func() {
		// Sandboxes outlive turns and planes; nobody is left here to end the tasks.
		boxes, _ := filepath.Glob(filepath.Join(l.paths.Dir, "runs", "*", "box"))
		for _, dir := range boxes {
			if err := box.End(context.Background(), dir, time.Second, time.After); err != nil {
				l.t.Error(err)
			}
		}
		if err := l.plane.Close(); err != nil {
			l.t.Error(err)
		}
		_ = log.Close()
	})
	l.place = l.place.with("URL="+l.plane.URL, "OWNER="+l.plane.Token, "STATE="+l.paths.Dir)
	key, err := os.ReadFile(l.paths.Key())
	must(l.t, err)
	l.know("the owner's token", l.plane.Token)
	l.know("the model credential", modelSecret)
	if out, err := l.place.sh(l.t.Context(), `echo `+modelSecret+` | FAKE_PIPE=1 lazy auth add claude --base-url "$MODEL"`); err != nil {
		l.t.Fatalf("store the model credential: %v: %s", err, out)
	}
	l.know("the key that tokens derive from", strings.TrimSpace(string(key)))
}

// banner is a database on the machine's loopback: it greets whoever connects.
func banner(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "HTTP/1.0 200 OK\r\n\r\ndatabase-banner")
			_ = c.Close()
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wait.Wait() })
	return ln.Addr().String()
}

func (l *lab) git(args ...string) string {
	l.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = l.repo, l.place.env
	out, err := c.CombinedOutput()
	if err != nil {
		l.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// know notes a secret that must be nowhere but where it belongs.
func (l *lab) know(what, text string) {
	if text == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets[text] = what
}

// shown is what a person sees of a task.
type record struct {
	Task   string `json:"task_id"`
	Short  string `json:"short_id"`
	Status string `json:"status"`
}

// task makes a task, lets its agent run to the end, and says where to look.
func (l *lab) task(t *testing.T, code, goal, agent string) (place, record) {
	t.Helper()
	if agent == "" {
		agent = "command"
	}
	do := func(script string) string {
		out, err := l.place.with("CODE="+code, "GOAL="+goal, "AGENT="+agent).sh(t.Context(), script)
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return out
	}
	do(`lazy create --code "$CODE" --goal "$GOAL" --agent "$AGENT" --prompt "Please work." && lazy start "$CODE"`)
	_, _ = l.place.with("CODE="+code).sh(t.Context(), `lazy wait "$CODE" --timeout 60s`)
	return l.look(t, code)
}

func (l *lab) look(t *testing.T, code string) (place, record) {
	t.Helper()
	out, err := l.place.with("CODE="+code).sh(t.Context(), `lazy show "$CODE" --json`)
	var r record
	if err == nil {
		err = json.Unmarshal([]byte(out), &r)
	}
	if err != nil {
		t.Fatalf("show %s: %v: %s", code, err, out)
	}
	run := l.paths.Run(r.Short, 1)
	var tok spool.Token
	if ok, err := spool.Read(run, spool.TokenFile, &tok); err != nil || !ok {
		t.Logf("run of %s left no tokens: %v", code, err)
	}
	var start spool.Start
	if ok, err := spool.Read(run, spool.StartFile, &start); err != nil || !ok {
		t.Errorf("run of %s left no start: %v", code, err)
	}
	l.know("a runner token", tok.Runner)
	l.know("a task token", tok.Task)
	l.know("a start nonce", start.Nonce)
	show := filepath.Join(l.base, "show-"+code+".json")
	write(t, show, out)
	return l.place.with("TASK="+code, "ID="+r.Task, "SHORT="+r.Short, "STATUS="+r.Status, "SHOW="+show, "RUN="+run,
		"BOX="+filepath.Join(filepath.Dir(run), "box"), "LOG="+filepath.Join(run, spool.AgentLog),
		"TREE="+filepath.Join(l.paths.Task(r.Short), "tree"), "RUNNER_TOKEN="+tok.Runner, "TASK_TOKEN="+tok.Task, "NONCE="+start.Nonce,
		"TURN="+string(start.Turn)), r
}

func onPlane(t *testing.T, group []entry, n *tally) {
	l := newLab(t, group, false)
	refs := l.refs()
	var attacks []entry
	t.Run("run", func(t *testing.T) {
		for _, e := range group {
			if e.on == "edge" {
				continue
			}
			attacks = append(attacks, e)
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				coversOf(t, e)
				l.attack(t, e, n)
			})
		}
	})
	l.edges(t, group, n)
	if now := l.refs(); now != refs {
		t.Errorf("a ref that is no task's moved:\n%s\nwas\n%s", now, refs)
	}
	l.search(t)
	t.Run("control", func(t *testing.T) {
		var need []entry
		for _, e := range attacks {
			if e.control == "host-process" {
				need = append(need, e)
			}
		}
		if len(need) > 0 {
			controls(t, need, n)
		}
	})
}

// attack runs an entry's attack and its twin as two tasks.
func (l *lab) attack(t *testing.T, e entry, n *tally) {
	p, r := l.task(t, e.name, "work on "+e.name, e.agent)
	p.check(t, "after the attack", e.mustNot, false)
	if r.Status == "working" {
		t.Errorf("the turn never ended")
	}
	n.attacks.Add(1)
	p, r = l.task(t, e.name+"-ok", "work on "+e.name, e.agent)
	if r.Status != "blocked" {
		out, _ := p.sh(t.Context(), `lazy show "$TASK" --full`)
		t.Errorf("the benign twin ended %s: %s", r.Status, clip(out))
	}
	p.check(t, "after the twin", e.must, true)
	n.twins.Add(1)
}

// refs lists what belongs to the person alone.
func (l *lab) refs() string {
	var keep []string
	for line := range strings.Lines(l.git("for-each-ref", "--format=%(refname) %(objectname)")) {
		if !strings.HasPrefix(line, "refs/heads/lazy/") && !strings.HasPrefix(line, "refs/lazy/") {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "")
}

// search looks for every secret in everything that is kept or shown: the store,
// bodies, logs, prompts, workspaces, what agents found, and what people read.
// Where a secret belongs, it is in a file that only the person reads.
func (l *lab) search(t *testing.T) {
	t.Helper()
	home := map[string]bool{"owner.token": true, "key": true, spool.TokenFile: true, spool.StartFile: true}
	looked := 0
	for _, root := range []string{l.paths.Dir, l.repo, filepath.Join(l.base)} {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // an agent's files may be unreadable
			}
			if d.IsDir() && (d.Name() == "bin" || d.Name() == ".ssh" || root == l.base && (p == l.repo || p == l.paths.Dir)) {
				return fs.SkipDir
			}
			if !d.Type().IsRegular() || p == filepath.Join(l.repo, ".git/config") {
				return nil
			}
			if home[d.Name()] && strings.HasPrefix(p, l.paths.Dir) && !strings.Contains(p, "/tree/") {
				if fi, err := d.Info(); err != nil || fi.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s holds a secret and others may read it", p)
				}
				return nil
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return nil // as above
			}
			looked++
			l.mu.Lock()
			defer l.mu.Unlock()
			for text, what := range l.secrets {
				if strings.Contains(string(b), text) {
					t.Errorf("%s is in %s", what, p)
				}
			}
			return nil
		})
		must(t, err)
	}
	if looked < 20 || len(l.secrets) < 6 {
		t.Errorf("only %d files were searched for %d secrets", looked, len(l.secrets))
	}
}

// controls shows that the attacks of agents work where nothing contains them.
func controls(t *testing.T, group []entry, n *tally) {
	l := newLab(t, group, true)
	for _, e := range group {
		t.Run(e.name, func(t *testing.T) {
			p, _ := l.task(t, e.name, "work on "+e.name, e.agent)
			p.check(t, "without a sandbox", shown(e.mustNot), true)
			n.shown.Add(1)
		})
	}
}
