//go:build linux

package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// entry is one file of the corpus.
type entry struct {
	name, file string
	on         string // git, box, plane, edge, proxy
	family     string
	control    string // how the attack is shown to be able to work; "none: why" when it is not
	network    string // of a proxy entry
	agent      string // of a plane entry; "" is a command without a model
	elsewhere  bool   // the target is not checked out: the person's own filters are no part of it
	files      map[string]string
	repo       map[string]string
	mustNot    []claim
	must       []claim
}

// claim is a sentence and the shell command that finds out whether it is true.
type claim struct {
	what, shell string
	unshown     bool // the control does not show it
}

// least is how many attacks there are; the number may grow only.
const least = 93

func load(t *testing.T) []entry {
	t.Helper()
	files, err := filepath.Glob("corpus/*.txtar")
	must(t, err)
	var all []entry
	for _, f := range files {
		e, err := parse(f)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all = append(all, e)
	}
	return all
}

func parse(file string) (entry, error) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		return entry{}, err
	}
	e := entry{
		name: strings.TrimSuffix(filepath.Base(file), ".txtar"), file: file,
		files: map[string]string{}, repo: map[string]string{},
	}
	keys := map[string]*string{"on": &e.on, "family": &e.family, "control": &e.control, "network": &e.network, "agent": &e.agent}
	for line := range strings.Lines(string(ar.Comment)) {
		k, v, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		if to := keys[k]; ok && to != nil {
			*to = v
		}
		e.elsewhere = e.elsewhere || strings.TrimSpace(line) == "# elsewhere"
	}
	for _, f := range ar.Files {
		switch {
		case strings.HasPrefix(f.Name, "repo/"):
			e.repo[strings.TrimPrefix(f.Name, "repo/")] = string(f.Data)
		case f.Name == "must-not" || f.Name == "must":
			claims, err := claims(string(f.Data))
			if err != nil {
				return e, err
			}
			if f.Name == "must" {
				e.must = claims
			} else {
				e.mustNot = claims
			}
		case f.Name == "setup.sh", f.Name == "attack.sh", f.Name == "naive.sh", f.Name == "benign.sh", f.Name == "lazy.toml":
			e.files[f.Name] = string(f.Data)
		default:
			return e, fmt.Errorf("no entry has a section %q", f.Name)
		}
	}
	switch {
	case e.family == "" || e.on == "":
		return e, errors.New("it does not say its family, or what it runs on")
	case e.files["attack.sh"] == "" || e.files["benign.sh"] == "":
		return e, errors.New("an entry has an attack and a benign twin")
	case e.control == "" && e.files["naive.sh"] == "" && e.on != "proxy":
		return e, errors.New("it neither shows that the attack can work nor says why not")
	case len(e.mustNot) == 0 && e.on != "git" && e.on != "box":
		return e, errors.New("it does not say what must not happen")
	}
	return e, nil
}

func claims(text string) ([]claim, error) {
	var all []claim
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		what, shell, ok := strings.Cut(line, " :: ")
		if !ok {
			return nil, fmt.Errorf("%q is not \"what :: shell command\"", line)
		}
		rest, unshown := strings.CutPrefix(what, "~ ")
		all = append(all, claim{rest, shell, unshown})
	}
	return all, nil
}

// tally counts what ran, for the log.
type tally struct{ attacks, twins, shown atomic.Int64 }

func TestEveryAttackFailsAndEveryBenignTwinWorks(t *testing.T) {
	all := load(t)
	if len(all) < least {
		t.Errorf("the corpus has %d attacks, fewer than %d", len(all), least)
	}
	var n tally
	t.Cleanup(func() { // entries run side by side, to the end of this test
		t.Logf("%d attacks refused, %d shown to work where nothing is in their way, %d benign twins work",
			n.attacks.Load(), n.shown.Load(), n.twins.Load())
	})
	on := map[string]func(*testing.T, entry, *tally){"git": onGit, "box": onBox, "proxy": onProxy}
	planes := map[string][]entry{}
	var keys []string // in the order of the corpus: the names of tests must not depend on a map's
	for _, e := range all {
		if run := on[e.on]; run != nil {
			t.Run(e.on+"/"+e.name, func(t *testing.T) {
				req.Script(t, e.file)
				run(t, e, &n)
			})
			continue
		}
		if e.on != "plane" && e.on != "edge" {
			t.Fatalf("%s: there is no %q to run on", e.file, e.on)
		}
		key := e.files["lazy.toml"] + "\x00" + e.files["setup.sh"]
		if planes[key] == nil {
			keys = append(keys, key)
		}
		planes[key] = append(planes[key], e)
	}
	for _, key := range keys {
		t.Run("plane", func(t *testing.T) { onPlane(t, planes[key], &n) })
	}
}

// place is where the scripts of an entry run: variables and a directory.
type place struct {
	dir string
	env []string
}

func (p place) with(env ...string) place {
	return place{p.dir, append(append([]string(nil), p.env...), env...)}
}

// sh runs a script as somebody on the machine, and ends all it started.
func (p place) sh(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", script)
	c.Dir, c.Env = p.dir, p.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return strings.TrimSpace(out.String()), err
}

// check runs claims: want says what they are to be.
func (p place) check(t *testing.T, when string, claims []claim, want bool) {
	t.Helper()
	for _, c := range claims {
		out, err := p.sh(t.Context(), c.shell)
		if (err == nil) != want {
			t.Errorf("%s: %q is %t; %q said: %s (%v)", when, c.what, err == nil, c.shell, clip(out), err)
		}
	}
}

func clip(s string) string {
	if len(s) > 1500 {
		return s[:700] + " … " + s[len(s)-700:]
	}
	return s
}

// shown leaves out what a control cannot show.
func shown(all []claim) []claim {
	var out []claim
	for _, c := range all {
		if !c.unshown {
			out = append(out, c)
		}
	}
	return out
}

// programs makes a directory with the programs this binary is.
func programs(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	bin := filepath.Join(dir, "bin")
	must(t, os.MkdirAll(bin, 0o755))
	for _, name := range []string{"lazy", "lazy-agent", "probe"} {
		must(t, os.Symlink(self, filepath.Join(bin, name)))
	}
	return bin
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
