package supervisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// volumes are the directories that the two containers of a task share, or one of
// them has alone.
type volumes struct {
	t   *testing.T
	dir string
}

func (v volumes) at(name string) string { return filepath.Join(v.dir, name) }

// container starts a program in a sandbox that stands for a container: namespaces
// and a root of its own, the listed capabilities, and the volumes it is given. The
// network is the machine's, as the two containers of a task share theirs.
func (v volumes) container(ctx context.Context, caps []string, env []string, mounts map[string]string, argv ...string) *exec.Cmd {
	args := []string{
		"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session", "--clearenv",
		"--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp", "--perms", "0755", "--dir", "/lazy",
		"--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--cap-drop", "ALL",
	}
	for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
		if at, err := os.Readlink("/" + d); err == nil {
			args = append(args, "--symlink", at, "/"+d)
		} else if _, err := os.Stat("/" + d); err == nil {
			args = append(args, "--ro-bind", "/"+d, "/"+d)
		}
	}
	for name, how := range mounts {
		args = append(args, how, v.at(name), "/lazy/"+name)
	}
	for _, kv := range env {
		k, val, _ := strings.Cut(kv, "=")
		args = append(args, "--setenv", k, val)
	}
	for _, c := range caps {
		args = append(args, "--cap-add", "CAP_"+c)
	}
	cmd := exec.CommandContext(ctx, "bwrap", append(append(args, "--remount-ro", "/", "--"), argv...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return cmd
}

// needRoot skips a test that has to become other users. That CI has run it as root
// shows in what is listed as proven.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("two containers under two users are made by root")
	}
}

const probe = `set -u
out() { printf '%s\n' "$*" >> probe.txt; }
out uid "$(id -u)" groups "$(id -G)"
out caps "$(grep CapEff /proc/self/status)" "$(grep NoNewPrivs /proc/self/status)"
kill -0 1 2>/dev/null && out "can signal the helper"
cat /proc/1/environ >/dev/null 2>&1 && out "can read the helper"
grep -rqs "canary[rnt]" /proc/*/environ /proc/*/cmdline /lazy/work /lazy/run /lazy/home 2>/dev/null && out "found a credential"
[ -e /lazy/private ] && out "sees the supervisor's directory"
touch /lazy/run/x 2>/dev/null && out "can write among the sockets"
mv /lazy/run/agent.sock /tmp/ 2>/dev/null && out "can take a socket away"
touch /lazy/bin/x 2>/dev/null && out "can write the helper"
touch /x 2>/dev/null && out "can write the root"
ls /lazy/run/helper >/dev/null 2>&1 && out "can look at the helper's socket"
touch "$(git rev-parse --git-common-dir)/refs/heads/x" 2>/dev/null && out "can write shared refs"
git branch hack 2>/dev/null && out "can make a branch"
[ "$(ls /proc | grep -c '^[0-9]')" -gt 20 ] && out "sees other processes"
mv .git .git2 2>/dev/null && out "can move .git away"
rm -f .git 2>/dev/null && out "can remove .git"
ln -sf /tmp .git 2>/dev/null && out "can put a link in place of .git"
{ printf 'gitdir: /tmp\n' > .git; } 2>/dev/null && out "can write .git"
mv /lazy/work/tree /lazy/work/tree2 2>/dev/null && out "can move the tree away"
chmod 777 . 2>/dev/null && out "can change the mode of the tree"
mv "$(git rev-parse --git-dir)/commondir" /tmp/ 2>/dev/null && out "can move the git directory's link away"
mv "$(git rev-parse --git-dir)" "$(git rev-parse --git-dir)2" 2>/dev/null && out "can move the git directory away"
mv "$GIT_OBJECT_DIRECTORY/info" /tmp/ 2>/dev/null && out "can move the alternates away"
mkdir sub && mv sub sub2 && rmdir sub2 || out "cannot move what is its own"
[ "$(cat a.txt)" = "a" ] || out "the tree is not the task's"
printf 'mine\n' > a.txt || out "cannot write the tree"
err=$(git add a.txt 2>&1) || out "cannot stage: $err"
lazy-agent call lazy_commit '{"message":"from inside"}' >/dev/null || out "cannot commit"
printf 'more\n' >> a.txt || out "cannot write what was committed"
out end
`

func TestTwoContainersOfTwoUsersHandATurnOverAndShareNothingElse(t *testing.T) {
	req.Covers(t, "AG-022", "AG-024", "AG-026", "GT-001", "P8")
	needSandbox(t)
	needRoot(t)
	v := volumes{t, t.TempDir()}
	for _, d := range []string{"work", "run", "home", "private", "bin"} {
		must(t, os.MkdirAll(v.at(d), 0o755))
	}
	must(t, os.Chmod(v.at("private"), 0o700))
	install(t, v.at("bin"))
	repo := t.TempDir() // a person's; the containers get it as a sealed bundle
	git := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir, c.Env = repo, append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main", ".")
	must(t, os.WriteFile(filepath.Join(repo, "a.txt"), []byte("a\n"), 0o644))
	git("add", "-A")
	git("commit", "-q", "-m", "first")
	base := git("rev-parse", "main")
	shared := names.HostedWork + "/shared"
	git("bundle", "create", "-q", "pack", "main")
	plain, err := os.ReadFile(filepath.Join(repo, "pack"))
	must(t, err)
	key, pack := bytes.Repeat([]byte{9}, 32), "push/"+strings.Repeat("a", 32)
	cipher, err := checkpoint.NewCipher(key)
	must(t, err)
	var sealed bytes.Buffer
	must(t, cipher.SealStream(pack, &sealed, bytes.NewReader(plain)))
	state := t.TempDir()
	plane := planetest.New(t, state, turn.Command{
		Turn: turnID, Task: taskID, Code: "fix", Epoch: 1, Kind: turn.Work, Prompt: "do the thing", WatchdogMS: 60_000,
		Deadline: time.Now().Add(time.Hour), Agent: "command", Argv: []string{"sh", "-c", probe}, Network: "none",
		State: names.HostedWork, Tree: names.HostedWork + "/tree", Objects: names.HostedWork + "/objects", Shared: shared,
		GitDir: names.HostedWork + "/worktrees/lazy-" + taskID.Short(), Branch: "lazy/fix", Base: base, Tip: base, Author: "lazy agent <agent@lazyplane.invalid>",
	})
	plane.Do(func(p *planetest.Plane) {
		p.Vault = &planetest.Vault{Vault: turn.Vault{
			Key: bytes.Repeat([]byte{7}, 32), Repository: &turn.Repository{Key: key, Format: "sha1", Packs: []turn.Bundle{{Name: pack, Commit: base}}},
		}, Objects: map[string][]byte{pack: sealed.Bytes()}}
	})
	start, err := json.Marshal(spool.Start{
		Target: plane.URL(), Nonce: planetest.Nonce, Tenant: "local", Project: "p", Task: taskID, Turn: turnID, Epoch: 1,
	})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var agentLog, superLog bytes.Buffer
	agent := v.container(ctx, []string{"SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE"}, nil,
		map[string]string{"work": "--bind", "run": "--bind", "home": "--bind", "bin": "--ro-bind"},
		names.HostedHelper, "exec", "--listen", names.HostedExec, "--as", fmt.Sprint(names.HostedUID))
	agent.Stdout, agent.Stderr = &agentLog, &agentLog
	supervisor := v.container(ctx, []string{"CHOWN", "DAC_OVERRIDE", "FOWNER"}, []string{names.EnvStart + "=" + string(start)},
		map[string]string{"work": "--bind", "run": "--bind", "home": "--bind", "bin": "--ro-bind", "private": "--bind"},
		names.HostedHelper, "supervise", "--hosted", "--protocol-dir", names.HostedPrivate+"/run")
	supervisor.Stdout, supervisor.Stderr = &superLog, &superLog
	must(t, supervisor.Start())
	must(t, agent.Start()) // in whatever order they come
	superErr, agentErr := supervisor.Wait(), agent.Wait()
	if superErr != nil || agentErr != nil {
		t.Fatalf("supervisor: %v, agent: %v\n%s\n%s", superErr, agentErr, superLog.String(), agentLog.String())
	}
	resp := plane.Report()
	if resp.Outcome != "ok" || resp.Commits != 1 || resp.Head == base || resp.Uncommitted.Total != 2 {
		t.Errorf("the report is %+v (%+v)", resp, resp.Failure)
	}
	b, err := os.ReadFile(v.at("work/tree/probe.txt"))
	must(t, err)
	want := fmt.Sprintf("uid %d groups %d\ncaps CapEff:\t0000000000000000 NoNewPrivs:\t1\nend\n", names.HostedUID, names.HostedUID)
	if string(b) != want {
		t.Errorf("the agent says\n%swant\n%s", b, want)
	}
	plane.Do(func(p *planetest.Plane) {
		if c := p.Vault.Checkpoint; c == nil || c.Base != resp.Head || len(p.Vault.Bundles) != 1 {
			t.Errorf("checkpoint %+v, bundles %v", c, p.Vault.Bundles)
		}
	})
	if strings.Contains(superLog.String(), "canary") || strings.Contains(agentLog.String(), "canary") {
		t.Error("a credential is in a log")
	}
}
