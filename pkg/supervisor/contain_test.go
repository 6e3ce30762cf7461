package supervisor_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestNoCredentialIsReachableFromTheAgent(t *testing.T) {
	req.Covers(t, "AG-022", "AG-024", "P8")
	r := newRig(t, `
		env > seen; cat ~/.claude.json "$LAZY_PROMPT_FILE" >> seen
		find / -xdev -type f -not -path '/proc/*' -not -path '/usr/*' -not -path '/sys/*' -size -2000k -exec cat {} + >> seen 2>/dev/null
		cat /proc/*/environ /proc/*/cmdline >> seen 2>/dev/null
		ls -R /lazy >> names; ls /proc | grep -c '^[0-9]' >> names; echo ok`)
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	seen := r.file("seen")
	for what, secret := range map[string]string{"nonce": planetest.Nonce, "runner token": planetest.RunnerToken, "task token": planetest.TaskToken, "address": r.plane.URL(), "state directory": "plane.json"} {
		if strings.Contains(seen, secret) {
			t.Errorf("the %s is visible inside", what)
		}
	}
	if !strings.Contains(seen, "LAZY_SOCKET=/lazy/run/agent.sock") {
		t.Error("the scan saw nothing: LAZY_SOCKET is missing")
	}
	if n := r.file("names"); strings.Contains(n, "exec.sock") {
		t.Errorf("the helper's socket is visible: %s", n)
	}
	for _, name := range []string{spool.StartFile, spool.TokenFile, spool.ResponseFile} {
		fi, err := os.Stat(filepath.Join(r.runDir(), name))
		must(t, err)
		equal(t, name+" mode", fi.Mode().Perm(), 0o600)
	}
	for _, name := range []string{spool.LogFile, spool.AgentLog, spool.CommandFile} {
		b, err := os.ReadFile(filepath.Join(r.runDir(), name))
		must(t, err)
		for _, secret := range []string{planetest.RunnerToken, planetest.TaskToken, planetest.Nonce} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s holds %s", name, secret)
			}
		}
	}
}

// What the agent claims on its socket changes nothing, and nothing of /runner or
// /rpc is behind it.
func TestNothingTheAgentSendsSetsWhoItIs(t *testing.T) {
	req.Covers(t, "AG-023", "AG-024", "CM-009")
	r := newRig(t, `c="curl -s --unix-socket $LAZY_SOCKET -w %{http_code} -X POST"
		$c -H 'Authorization: Bearer lzy_owner' -H 'X-Lazy-Turn: other' -H 'X-Lazy-Epoch: 99' -H 'X-Lazy-Commit: {"Parent":"x"}' -H 'X-Lazy-Actor: human' \
			-d '{"arguments":{"title":"t","content":"c","blocking":false},"task_id":"other","turn":"x"}' http://x/tool/lazy_raise > a
		$c -d '{"arguments":{"title":"t","content":"c","blocking":false}}' http://x/mcp/00000000-0000-4000-8000-000000000000/lazy_raise > b
		for p in runner/hello runner/beat runner/report runner/git rpc/startTask daemon/status tool/../runner/git tool/a/b; do
			printf '%s ' $p >> c; $c -o /dev/null --path-as-is -d '{}' http://x/$p >> c; echo >> c; done
		$c -d 'junk' http://x/tool/lazy_raise > d; $c -d '{"message":"m"}' http://x/tool/lazy_commit > e; echo ok`)
	if _, err := os.Stat("/usr/bin/curl"); err != nil {
		t.Skip("no curl here")
	}
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	for _, f := range []string{"a", "b"} {
		if s := r.file(f); !strings.HasSuffix(s, "200") {
			t.Errorf("%s: %s", f, s)
		}
	}
	for line := range strings.Lines(r.file("c")) {
		if f := strings.Fields(line); len(f) != 2 || f[1] != "404" {
			t.Errorf("reachable: %s", line)
		}
	}
	for _, f := range []string{"d", "e"} {
		if s := r.file(f); !strings.HasSuffix(s, "400") {
			t.Errorf("%s: %s", f, s)
		}
	}
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "calls", len(p.Calls), 2)
		for _, c := range p.Calls { // the plane itself refuses any stamp but ours
			equal(t, "actor", c.Header.Get("X-Lazy-Actor"), "")
			if c.Commit != nil {
				t.Error("a forged commit got through")
			}
		}
	})
}

func TestAReadOnlyTurnRelaysReadsOnly(t *testing.T) {
	req.Covers(t, "AG-010", "AG-011", "HF-007")
	r := newRig(t, `
		lazy-agent call lazy_status '{}' > read 2>&1; echo $? >> read
		lazy-agent call lazy_journal '{"text":"x"}' > write 2>&1; echo $? >> write
		env -u LAZY_MCP_READ_ONLY lazy-agent call lazy_commit '{"message":"x"}' >> write 2>&1
		env -u LAZY_MCP_READ_ONLY lazy-agent call lazy_not_a_tool '{}' >> write 2>&1
		printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"lazy_commit","arguments":{"message":"x"}}}' |
			$(sed -n 's/.*"command":"\([^"]*\)".*/\1/p' ~/.claude.json) mcp --task-id $LAZY_TASK --worktree . --read-only > listed
		cp ~/.claude.json conf
		mkdir -p .lazy-task-sandbox; echo '{"kind":"journal","content":"x"}' > .lazy-task-sandbox/turn-handoff.jsonl; echo ok`,
		func(c *turn.Command) { c.Kind, c.ReadOnly = turn.Ask, true })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "handoff", len(resp.Handoff), 0)
	if s := r.file("read"); !strings.HasSuffix(s, "\n0\n") {
		t.Errorf("a read: %s", s)
	}
	if s := r.file("write"); strings.Count(s, "cannot change anything") != 3 || !strings.Contains(s, "answer") {
		t.Errorf("writes: %s", s)
	}
	r.plane.Do(func(p *planetest.Plane) {
		for _, c := range p.Calls {
			if c.Tool != "lazy_status" {
				t.Errorf("%s was relayed", c.Tool)
			}
		}
	})
	if s := r.file("listed"); strings.Contains(s, `"lazy_commit"`) || !strings.Contains(s, `"lazy_show"`) || !strings.Contains(s, "cannot change anything") {
		t.Errorf("listed: %.400s", s)
	}
	if s := r.file("conf"); !strings.Contains(s, `"--read-only"`) {
		t.Errorf("configuration: %s", s)
	}
}

// Every kind of turn that runs an agent writes the configuration first, and a
// later turn in the same sandbox writes it again.
func TestEveryTurnWritesTheConfigurationBeforeTheAgentRuns(t *testing.T) {
	req.Covers(t, "AG-008", "AG-009", "AG-005", "WF-04")
	r := newRig(t, `cat ~/.claude.json > conf; echo '{}' > ~/.claude.json; echo ok`)
	for i, kind := range []turn.Kind{turn.Work, turn.Ask, turn.Review, turn.Gate} {
		if i > 0 {
			r.next(`cat ~/.claude.json > conf; rm ~/.claude.json; ln -s /lazy/bin/lazy-agent ~/.claude.json; echo ok`)
		}
		r.plane.Do(func(p *planetest.Plane) { p.Command.Kind, p.Command.ReadOnly = kind, kind.ReadOnly() })
		equal(t, "outcome", r.run().Outcome, "ok")
		only := ""
		if kind.ReadOnly() {
			only = `,"--read-only"`
		}
		equal(t, string(kind)+" configuration", r.file("conf"), `{"mcpServers":{"lazy-agent":{"command":"lazy-agent","args":["mcp","--task-id","`+
			string(taskID)+`","--worktree","`+r.ws.Tree+`"`+only+`]}}}`)
	}
	// While the agent runs no phase of the harness is named, and the last one
	// before it is the writing of its configuration.
	ran := false
	r.plane.Do(func(p *planetest.Plane) {
		for i, b := range p.Beats {
			if b.State != "running" {
				continue
			}
			ran = true
			if b.Phase != "" {
				t.Errorf("while the agent runs the phase is %q", b.Phase)
			}
			if i > 0 && p.Beats[i-1].State == "preparing" && p.Beats[i-1].Phase != "write-mcp-config" && p.Beats[i-1].Phase != "checks" {
				t.Errorf("the agent began after phase %q", p.Beats[i-1].Phase)
			}
		}
	})
	if !ran {
		t.Error("no beat says that the agent runs")
	}
}

func TestAServerSurvivesTheTurnAndDiesWithTheTask(t *testing.T) {
	req.Covers(t, "AG-006", "AG-007", "AG-002")
	r := newRig(t, `(while :; do echo tick >> ticks; sleep 0.01; done) > /dev/null 2>&1 & echo $! > pid; echo up`)
	equal(t, "outcome", r.run().Outcome, "ok")
	size := func() int64 {
		fi, err := os.Stat(filepath.Join(r.ws.Tree, "ticks"))
		if err != nil {
			return 0
		}
		return fi.Size()
	}
	at := size()
	for size() < at+50 { // nothing but the server writes
		if !boxAlive(t, r) {
			t.Fatal("the sandbox ended with the turn")
		}
	}
	r.next(`kill -0 $(cat pid) && tr '\0' ' ' < /proc/$PPID/cmdline`)
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	if !strings.Contains(resp.Text, "lazy-agent exec") {
		t.Errorf("the agent's parent is %q", resp.Text)
	}
	must(t, r.runner.EndTask(t.Context(), taskID))
	if boxAlive(t, r) {
		t.Error("the sandbox is alive")
	}
	at = size()
	lock, err := spool.LockBox(spool.BoxDir(r.runDir()))
	must(t, err)
	if lock == nil {
		t.Fatal("some process of the sandbox lives")
	}
	must(t, lock.Close())
	equal(t, "ticks after the end", size(), at)
}

func boxAlive(t *testing.T, r *rig) bool {
	t.Helper()
	var b spool.Box
	ok, err := spool.Read(spool.BoxDir(r.runDir()), spool.BoxFile, &b)
	must(t, err)
	return ok && b.Alive()
}

func TestTheSandboxReachesNoServiceOfTheMachine(t *testing.T) {
	req.Covers(t, "AG-027")
	hit := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	defer s.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	must(t, err)
	script := `for u in http://127.0.0.1:` + port + ` http://localhost:` + port + ` $PLANE http://169.254.169.254/ http://10.0.0.1/; do
			curl -s -m 5 -o /dev/null -w '%{http_code} ' $u >> codes; curl -s -m 5 --noproxy '*' -o /dev/null -w '%{http_code} ' $u >> codes; done
		echo "proxy=$HTTP_PROXY" > proxy; echo ok`
	if _, err := os.Stat("/usr/bin/curl"); err != nil {
		t.Skip("no curl here")
	}
	for _, network := range []string{"open", "allow:example.com", "none"} {
		hit = false
		r := newRig(t, script, func(c *turn.Command) { c.Network = network })
		r.plane.Do(func(p *planetest.Plane) { p.Command.Env = map[string]string{"PLANE": "x"} })
		equal(t, network, r.run().Outcome, "ok")
		for code := range strings.FieldsSeq(r.file("codes")) {
			if code != "403" && code != "000" && code != "502" {
				t.Errorf("%s: answered %s", network, code)
			}
		}
		equal(t, network+" has a proxy", strings.Contains(r.file("proxy"), "http://127.0.0.1:"), network != "none")
		equal(t, network+" hit", hit, false)
	}
}

func TestAHostProcessIsTheExplicitExceptionAndSaysSo(t *testing.T) {
	req.Covers(t, "AG-028")
	r := newRig(t, `echo "$LAZY_MCP_CONFIG" > conf; test -f "$LAZY_MCP_CONFIG" && lazy-agent call lazy_commit '{"message":"m"}' >/dev/null && echo hi`,
		func(c *turn.Command) { c.Host = true })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "host", resp.Host, true)
	equal(t, "text", resp.Text, "hi")
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(r.file("conf"), home+"/.claude") {
		t.Errorf("the person's own configuration was written: %s", r.file("conf"))
	}
}
