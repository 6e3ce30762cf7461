package supervisor_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestATurnGoesFromItsNonceToItsReport(t *testing.T) {
	req.Covers(t, "AG-001", "AG-003")
	r := newRig(t, `cat > got.txt; echo hello > b.txt
		lazy-agent call lazy_commit '{"message":"add b","files":["b.txt"]}' || exit 9
		echo noise; echo; echo "I added b."`)
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "text", resp.Text, "I added b.")
	equal(t, "commits", resp.Commits, 1)
	equal(t, "branch", r.git("rev-parse", "lazy/fix"), resp.Head)
	equal(t, "content", r.git("show", "lazy/fix:b.txt"), "hello")
	equal(t, "prompt", r.file("got.txt"), "do the thing")
	if len(resp.Uncommitted.Paths) != 1 || resp.Uncommitted.Paths[0] != "got.txt" {
		t.Errorf("uncommitted: %+v", resp.Uncommitted)
	}
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "tip", p.Tip, resp.Head)
		equal(t, "alarms", p.Alarms, 0)
	})
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	req.Covers(t, "AG-004")
	r := newRig(t, "true", func(c *turn.Command) { c.Argv = []string{"no-such-agent-cli"} })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "error")
	if f := resp.Failure; f == nil || f.Class != turn.FatalConfig || !strings.Contains(f.Reason, `"no-such-agent-cli" is missing`) {
		t.Errorf("failure: %+v", f)
	}
	r.next("true", func(c *turn.Command) { c.Argv = []string{"sh", "-c", "true"} })
	t.Setenv("PATH", t.TempDir()) // the supervisor gets this one
	resp = r.run()
	if f := resp.Failure; f == nil || !strings.HasPrefix(f.Reason, "git is missing") {
		t.Errorf("failure: %+v", f)
	}
}

func TestASandboxWithoutWorkingToolsIsRefusedWithAdvice(t *testing.T) {
	req.Covers(t, "AG-013")
	r := newRig(t, "echo never > ran")
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, "break-selfcheck"), nil, 0o644))
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "error")
	if f := resp.Failure; f == nil || !strings.Contains(f.Reason, "-32000") || !strings.Contains(f.Reason, "Reinstall") {
		t.Errorf("failure: %+v", f)
	}
	if _, err := os.Stat(filepath.Join(r.ws.Tree, "ran")); err == nil {
		t.Error("the agent ran")
	}
}

func TestTheHandoffFileIsIgnoredByGitAndCollectedOnce(t *testing.T) {
	req.Covers(t, "HF-001", "HF-004")
	r := newRig(t, `echo '{"kind":"journal","content":"note"}' >> .lazy-task-sandbox/turn-handoff.jsonl
		echo x > x; lazy-agent call lazy_commit '{"message":"all"}' >/dev/null; git status --porcelain`)
	resp := r.run()
	equal(t, "status inside", resp.Text, "")
	equal(t, "left", resp.Uncommitted.Total, 0)
	equal(t, "files", r.git("show", "--name-only", "--format=", "lazy/fix"), "x")
	if len(resp.Handoff) != 1 || resp.Handoff[0].Content != "note" {
		t.Errorf("handoff: %+v", resp.Handoff)
	}
	r.next(`echo ok`)
	equal(t, "the next turn's", len(r.run().Handoff), 0)
}

func TestAnAgentThatLeftFilesBehindItsDeclarationIsAskedOnce(t *testing.T) {
	req.Covers(t, "UW-002", "UW-003")
	for name, c := range map[string]struct{ answer, left string }{
		"it commits": {`lazy-agent call lazy_commit '{"message":"rest"}' >/dev/null`, "0"},
		"it ignores": {`true`, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, `if [ -n "$LAZY_FOLLOWUP" ]; then cat > /tmp/p; cp /tmp/p ~/asked; echo "$LAZY_FOLLOWUP" >> ~/times; `+c.answer+`; exit 0; fi
				echo x > left; lazy-agent call lazy_final '{}' > /dev/null; echo "I am done"; mkdir d; echo y > "d/two words"`)
			resp := r.run()
			equal(t, "outcome", resp.Outcome, "ok")
			equal(t, "left", strconv.Itoa(resp.Uncommitted.Total), c.left)
			if c.left != "0" {
				equal(t, "branch", r.git("rev-parse", "lazy/fix"), r.base)
			}
			r.next(`cat ~/times ~/asked`)
			asked := r.run().Text
			log, err := os.ReadFile(filepath.Join(r.runDir(), "agent.log"))
			must(t, err)
			if n := strings.Count(string(log), "uncommitted\n"); n != 1 {
				t.Errorf("asked %d times: %s", n, log)
			}
			for _, w := range []string{"- left", "- d/two words", "lazy_commit"} {
				if !strings.Contains(string(log), w) {
					t.Errorf("the question %q (%q) does not name %q", log, asked, w)
				}
			}
		})
	}
}

func TestNeitherAWaitingNorASilentTurnIsAsked(t *testing.T) {
	req.Covers(t, "UW-004", "UW-003")
	for name, script := range map[string]string{
		"waits":  `lazy-agent call lazy_raise '{"title":"t","content":"c","blocking":true}' >/dev/null; lazy-agent call lazy_final '{}' >/dev/null`,
		"silent": `true`,
	} {
		r := newRig(t, `echo "run $LAZY_FOLLOWUP" >> runs; `+script)
		resp := r.run()
		equal(t, name+" outcome", resp.Outcome, "ok")
		equal(t, name+" runs", r.file("runs"), "run \n")
		equal(t, name+" left", resp.Uncommitted.Total, 1)
	}
}

func TestOnlyTheFirstLeftoverPathsAreListed(t *testing.T) {
	req.Covers(t, "UW-009")
	r := newRig(t, `i=0; while [ $i -lt 500 ]; do echo x > f$i; i=$((i+1)); done`)
	resp := r.run()
	equal(t, "total", resp.Uncommitted.Total, 500)
	equal(t, "listed", len(resp.Uncommitted.Paths), 200)
}

func TestKeepAliveOutputDoesNotHoldOffTheWatchdog(t *testing.T) {
	req.Covers(t, "FC-020", "FC-021", "FC-022")
	r := newRig(t, `echo run >> runs; echo still thinking; echo still thinking; echo x > over$(wc -l < runs); while :; do echo still thinking; sleep 0.02; done`)
	begun := r.limits("over")
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "stopped")
	equal(t, "stopped", resp.Stopped, turn.StopWatchdog)
	equal(t, "runs", r.file("runs"), "run\nrun\n")
	equal(t, "times that began", begun(), 2)
	if f := resp.Failure; f == nil || !strings.Contains(f.Reason, "1m0s") {
		t.Errorf("failure: %+v", f)
	}
}

func TestACompletedToolCallIsProgress(t *testing.T) {
	req.Covers(t, "FC-020")
	r := newRig(t, `echo run >> runs; for i in 1 2 3; do lazy-agent call lazy_status '{}' > /dev/null; done; echo survived`)
	begun := r.limits("")
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "text", resp.Text, "survived")
	equal(t, "runs", r.file("runs"), "run\n")
	if n := begun(); n < 2 { // two calls in a row may be seen as one step
		t.Errorf("the time for a step began %d times", n)
	}
}

func TestAFailingCommandIsACrashLoopAndUnknown(t *testing.T) {
	req.Covers(t, "FC-001", "FC-007", "CR-017")
	r := newRig(t, `echo run >> runs; mkdir -p .lazy-task-sandbox; echo '{"kind":"raised","blocking":true,"content":"help"}' >> .lazy-task-sandbox/turn-handoff.jsonl
		echo "what went wrong" >&2; exit 3`)
	must(t, os.MkdirAll(filepath.Join(r.ws.Tree, ".lazy-task-sandbox"), 0o755))
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, ".lazy-task-sandbox/turn-handoff.jsonl"), []byte(`{"kind":"journal","content":"stale"}`+"\n"), 0o644))
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "error")
	equal(t, "exit", resp.ExitCode, 3)
	equal(t, "runs", r.file("runs"), "run\nrun\nrun\n")
	f := resp.Failure
	if f == nil || f.Class != turn.Unknown || f.Attempts != 3 || f.Reason != "exit code 3: what went wrong" {
		t.Errorf("failure: %+v", f)
	}
	if !strings.Contains(resp.Log, "what went wrong") {
		t.Errorf("log: %q", resp.Log)
	}
	if len(resp.Handoff) != 3 || !resp.Handoff[0].Blocking || resp.Handoff[0].Content != "help" {
		t.Errorf("handoff: %+v", resp.Handoff)
	}
}

func TestAHostileHandoffFileIsNotRead(t *testing.T) {
	req.Covers(t, "GT-027", "HF-003")
	for name, plant := range map[string]string{
		"link":      `ln -s /proc/self/environ .lazy-task-sandbox/turn-handoff.jsonl`,
		"pipe":      `mkfifo .lazy-task-sandbox/turn-handoff.jsonl`,
		"directory": `mkdir .lazy-task-sandbox/turn-handoff.jsonl`,
		"out":       `rmdir .lazy-task-sandbox; ln -s / .lazy-task-sandbox`,
	} {
		r := newRig(t, `mkdir -p .lazy-task-sandbox; `+plant+`; echo ok`)
		resp := r.run()
		equal(t, name, resp.Outcome, "ok")
		equal(t, name+" handoff", len(resp.Handoff), 0)
		r.next(`mkdir -p .lazy-task-sandbox; echo ok`)
		equal(t, name+" next", r.run().Outcome, "ok")
	}
}

// wrote waits until the agent has made a file: it says so itself when it is ready.
func (r *rig) wrote(name string) {
	r.t.Helper()
	end := time.Now().Add(30 * time.Second)
	for {
		if _, err := os.Stat(filepath.Join(r.ws.Tree, name)); err == nil {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("the agent has not written %s", name)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestAStopReachesTheAgentWithinOneBeat(t *testing.T) {
	t.Parallel()
	req.Covers(t, "AG-029")
	r := newRig(t, `trap 'echo asked to end; exit 0' TERM; echo up; echo x > x; while :; do sleep 0.05; done`)
	r.launch()
	r.plane.Until("the agent runs", func(p *planetest.Plane) bool {
		return len(p.Beats) > 0 && p.Beats[len(p.Beats)-1].State == "running"
	})
	r.wrote("x")
	var beats int
	r.plane.Do(func(p *planetest.Plane) { p.Stop, beats = turn.StopAsked, len(p.Beats) })
	resp := r.plane.Report()
	equal(t, "outcome", resp.Outcome, "stopped")
	equal(t, "stopped", resp.Stopped, turn.StopAsked)
	equal(t, "text", resp.Text[strings.LastIndex(resp.Text, "\n")+1:], "asked to end")
	r.plane.Do(func(p *planetest.Plane) {
		states := ""
		for _, b := range p.Beats[beats:] {
			states += b.State + " "
		}
		if strings.Count(states, "running") > 1 {
			t.Errorf("beats until the end: %s", states)
		}
	})
	r.gone()
}

func TestStoppingTheRunnerEndsAnAgentThatIgnoresItAndKeepsItsAnswer(t *testing.T) {
	r := newRig(t, `trap '' TERM INT HUP; echo up; echo x > x; while :; do sleep 0.05; done`)
	ref := r.launch()
	r.plane.Until("the agent runs", func(p *planetest.Plane) bool {
		return len(p.Beats) > 0 && p.Beats[len(p.Beats)-1].State == "running"
	})
	r.wrote("x")
	must(t, r.runner.Stop(t.Context(), ref, turn.StopAsked))
	resp := r.plane.Report()
	equal(t, "stopped", resp.Stopped, turn.StopAsked)
	equal(t, "exit", resp.ExitCode, 137)
	rep, err := r.runner.Observe(t.Context(), ref)
	must(t, err)
	equal(t, "sight", rep.Sight, runner.Gone)
	must(t, r.runner.Stop(t.Context(), ref, turn.StopAsked))
}

func TestATurnEndsAtItsMaximumAge(t *testing.T) {
	req.Covers(t, "SY-047")
	r := newRig(t, `echo up; sleep 1000`, func(c *turn.Command) { c.Deadline = time.Now().Add(1500 * time.Millisecond) })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "stopped")
	equal(t, "stopped", resp.Stopped, turn.StopAge)
}

func TestSetupAndCopiesHappenOnceInsideTheSandbox(t *testing.T) {
	r := newRig(t, `cat setup-ran local.env sub/deep.txt > seen; echo ok`, func(c *turn.Command) {
		c.Setup, c.Copy = `echo installing; id -u >> setup-ran; test -d /lazy/run && echo inside >> setup-ran`, []string{"local.env", "sub", "missing", "../outside"}
	})
	must(t, os.WriteFile(filepath.Join(r.dir, "local.env"), []byte("A=1\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(r.dir, "..", "outside"), []byte("secret\n"), 0o600))
	must(t, os.MkdirAll(filepath.Join(r.dir, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(r.dir, "sub", "deep.txt"), []byte("deep\n"), 0o600))
	r.plane.Do(func(p *planetest.Plane) { p.Command.Source = r.dir })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "setup", strings.TrimSpace(resp.Setup), "installing")
	if s := r.file("seen"); !strings.Contains(s, "inside") || !strings.Contains(s, "A=1") || !strings.Contains(s, "deep") {
		t.Errorf("seen: %q", s)
	}
	r.next(`echo ok`)
	resp = r.run()
	equal(t, "setup again", resp.Setup, "")
	equal(t, "ran once", strings.Count(r.file("setup-ran"), "inside"), 1)
}

func TestAFailedSetupIsFatalAndShown(t *testing.T) {
	r := newRig(t, `echo never > ran`, func(c *turn.Command) { c.Setup = `echo boom >&2; exit 4` })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "error")
	equal(t, "flag", resp.SetupFailed, true)
	equal(t, "output", strings.TrimSpace(resp.Setup), "boom")
	if f := resp.Failure; f == nil || f.Class != turn.FatalConfig || !strings.Contains(f.Reason, "exit code 4") {
		t.Errorf("failure: %+v", f)
	}
	if _, err := os.Stat(filepath.Join(r.ws.Tree, "ran")); err == nil {
		t.Error("the agent ran")
	}
}

func TestTheUpstreamIsMergedBeforeTheAgentRuns(t *testing.T) {
	req.Covers(t, "AG-005")
	r := newRig(t, `cat up.txt`)
	must(t, os.WriteFile(filepath.Join(r.dir, "up.txt"), []byte("from upstream\n"), 0o644))
	r.git("add", "up.txt")
	r.git("commit", "-q", "-m", "upstream")
	r.plane.Do(func(p *planetest.Plane) {
		p.Command.Merge = &turn.Merge{Upstream: r.git("rev-parse", "main"), Ref: "main"}
	})
	resp := r.run()
	equal(t, "text", resp.Text, "from upstream")
	equal(t, "head", r.git("rev-parse", "lazy/fix"), resp.Head)
	equal(t, "commits of the agent", resp.Commits, 0)
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "tip", p.Tip, resp.Head)
		ops := ""
		for _, g := range p.Git {
			ops += g.Op + " "
		}
		equal(t, "operations", ops, "merge merge_commit ")
	})
}

const resolve = `grep -q '<<<<<<<' a.txt || exit 9; cat > asked; rm asked; echo both > a.txt; git add a.txt; lazy-agent call lazy_commit '{"message":"resolved"}' >/dev/null`

func TestAConflictIsTheAgentsToResolveAndNeverLeftAtRest(t *testing.T) {
	req.Covers(t, "GT-012", "GT-013")
	for name, c := range map[string]struct {
		script   string
		resolved bool
	}{"resolved": {resolve, true}, "left": {`echo gave up`, false}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, `echo ours > a.txt; lazy-agent call lazy_commit '{"message":"ours"}' >/dev/null`)
			equal(t, "first", r.run().Outcome, "ok")
			must(t, os.WriteFile(filepath.Join(r.dir, "a.txt"), []byte("theirs\n"), 0o644))
			r.git("commit", "-qam", "theirs")
			up := r.git("rev-parse", "main")
			r.next(c.script, func(cmd *turn.Command) { cmd.Merge = &turn.Merge{Upstream: up, Ref: "main"} })
			resp := r.run()
			equal(t, "outcome", resp.Outcome, "ok")
			equal(t, "settled", resp.Settled, true)
			equal(t, "head", r.git("rev-parse", "lazy/fix"), resp.Head)
			equal(t, "left", resp.Uncommitted.Total, 0)
			if c.resolved {
				equal(t, "parents", r.git("rev-parse", "lazy/fix^2"), up)
				equal(t, "content", r.git("show", "lazy/fix:a.txt"), "both")
			} else {
				equal(t, "merge state", strings.Join(resp.MergeState, " "), "a.txt")
				equal(t, "content", r.file("a.txt"), "ours\n")
			}
		})
	}
}
