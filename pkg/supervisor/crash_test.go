package supervisor_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const commitOnce = `echo one > one.txt; lazy-agent call lazy_commit '{"message":"one"}' > /dev/null || exit 9`

// A supervisor that dies anywhere in a commit leaves a row or none; what the next
// turn finds agrees with the row (UW-013, P9).
func TestACommitIsFinishedOrNeverHappenedWhereverTheSupervisorDies(t *testing.T) {
	req.Covers(t, "UW-013")
	for point, recorded := range map[string]bool{
		"git.objects.before": false, "git.objects.after": false, "commit.prepared": false,
		"commit.recorded": true, "git.ref.before": true, "git.ref.after": true, "commit.moved": true, "commit.answered": true,
	} {
		t.Run(point, func(t *testing.T) {
			r := newRig(t, commitOnce)
			r.dieAt(point)
			ref := r.launch()
			rep := r.gone()
			equal(t, "sight", rep.Sight, runner.Gone)
			equal(t, "exit", rep.ExitCode, 137)
			var tip string
			r.plane.Do(func(p *planetest.Plane) {
				equal(t, "rows", len(p.Rows) == 1, recorded)
				tip = p.Tip
				for _, c := range p.Rows { // what the control plane does with a row before it goes on
					must(t, r.repo.FinishCommit(t.Context(), "refs/heads/lazy/fix", c.Parent, c.Commit))
				}
			})
			equal(t, "branch", r.git("rev-parse", "lazy/fix"), tip)
			if got, err := r.runner.Observe(t.Context(), ref); err != nil || got.Sight != runner.Gone {
				t.Errorf("observe: %+v, %v", got, err)
			}
			r.next(`test -e one.txt && echo again >> one.txt && lazy-agent call lazy_commit '{"message":"again"}' && echo done`)
			resp := r.run()
			equal(t, "outcome", resp.Outcome, "ok")
			equal(t, "head", r.git("rev-parse", "lazy/fix"), resp.Head)
			equal(t, "content", r.git("show", "lazy/fix:one.txt"), "one\nagain")
			equal(t, "left", resp.Uncommitted.Total, 0)
			equal(t, "only these commits", r.git("rev-list", "--count", r.base+"..lazy/fix"), map[bool]string{true: "2", false: "1"}[recorded])
		})
	}
}

// The answer to the recording is lost: the agent is told so, nothing is sent again
// on its behalf, and the branch ends where the row says.
func TestALostCommitAnswerIsReportedAndSettledByItsRow(t *testing.T) {
	req.Covers(t, "MC-011", "UW-013")
	for _, cut := range []string{"before", "after"} {
		t.Run(cut, func(t *testing.T) {
			r := newRig(t, `echo one > one.txt; lazy-agent call lazy_commit '{"message":"one"}' 2> said; echo $? > code
				echo two > two.txt; lazy-agent call lazy_commit '{"message":"two","files":["two.txt"]}' || exit 8`)
			r.plane.Do(func(p *planetest.Plane) { p.Cut = map[string]string{"lazy_commit": cut} })
			resp := r.run()
			equal(t, "outcome", resp.Outcome, "ok")
			equal(t, "exit code of the first", strings.TrimSpace(r.file("code")), "1")
			if s := r.file("said"); !strings.Contains(s, "may have been done") {
				t.Errorf("the agent was told %q", s)
			}
			equal(t, "branch", r.git("rev-parse", "lazy/fix"), resp.Head)
			equal(t, "commits", r.git("rev-list", "--count", r.base+"..lazy/fix"), "2")
			equal(t, "first", r.git("show", "lazy/fix:one.txt"), "one")
			r.plane.Do(func(p *planetest.Plane) {
				equal(t, "rows", len(p.Rows), 2)
				equal(t, "tip", p.Tip, resp.Head)
			})
		})
	}
}

func TestAToolCallLostInFlightIsReportedAndNeverSentAgain(t *testing.T) {
	req.Covers(t, "MC-011")
	r := newRig(t, `lazy-agent call lazy_raise '{"title":"t","content":"c","blocking":false}' 2>&1; echo "code $?"`)
	r.plane.Do(func(p *planetest.Plane) { p.Cut = map[string]string{"lazy_raise": "after"} })
	resp := r.run()
	if !strings.Contains(resp.Text, "may have been done") || !strings.Contains(resp.Text, "code 1") {
		t.Errorf("the agent saw %q", resp.Text)
	}
	r.plane.Do(func(p *planetest.Plane) { equal(t, "calls", len(p.Calls), 1) })
}

// The nonce is claimed once however often its answer gets lost, and whoever of the
// run's supervisors asks.
func TestALostAnswerToHelloIsAskedForAgain(t *testing.T) {
	req.Covers(t, "AG-025", "CM-047")
	r := newRig(t, "echo ok")
	r.plane.Do(func(p *planetest.Plane) { p.LoseHello = 2 })
	equal(t, "outcome", r.run().Outcome, "ok")
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "hellos", p.Hellos, 3)
		equal(t, "alarms", p.Alarms, 0)
	})

	r.next("echo ok")
	r.dieAt("hello")
	r.launch()
	equal(t, "exit", r.gone().ExitCode, 137)
	must(t, supervise(r).Run())
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "hellos", p.Hellos, 5)
		equal(t, "alarms", p.Alarms, 0)
		if len(p.Reports) != 1 || p.Reports[0].Outcome != "ok" {
			t.Errorf("reports %+v", p.Reports)
		}
	})
}

// kill -9 of the supervisor while the agent works.
func TestAKilledSupervisorTakesItsAgentWithItAndIsGoneByProof(t *testing.T) {
	req.Covers(t, "CR-002", "CR-017", "SY-043")
	r := newRig(t, `echo "first words"; echo $$ > pid; trap '' TERM HUP; while :; do sleep 0.05; echo x >> alive; done`)
	r.dieAt("never")
	ref := r.launch()
	r.plane.Until("the agent runs", func(p *planetest.Plane) bool {
		return len(p.Beats) > 0 && p.Beats[len(p.Beats)-1].State == "running"
	})
	for { // it works, and what it said has been kept
		_, err := os.Stat(filepath.Join(r.ws.Tree, "alive"))
		said, _ := os.ReadFile(filepath.Join(r.runDir(), spool.AgentLog))
		if err == nil && strings.Contains(string(said), "first words") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if rep, err := r.runner.Observe(t.Context(), ref); err != nil || rep.Sight != runner.Alive {
		t.Fatalf("observe: %+v, %v", rep, err)
	}
	var self spool.Ident
	_, err := spool.Read(r.runDir(), spool.SelfFile, &self)
	must(t, err)
	p, err := os.FindProcess(self.PID)
	must(t, err)
	must(t, p.Kill())
	rep := r.gone()
	equal(t, "reason", rep.Reason, "OOM killed or SIGKILL (exit code 137)")
	equal(t, "exit", rep.ExitCode, 137)
	if !strings.Contains(rep.Log, "first words") {
		t.Errorf("log: %q", rep.Log)
	}
	// The successor's agent starts only once the old one is dead.
	r.next(`a=$(wc -c < alive); sleep 0.3; b=$(wc -c < alive); test "$a" = "$b" && echo quiet`)
	equal(t, "text", r.run().Text, "quiet")
}

func TestAnAnswerSurvivesTheDeathOfItsSupervisor(t *testing.T) {
	req.Covers(t, "AG-003", "CR-017")
	r := newRig(t, commitOnce+"; echo finished")
	r.dieAt("response")
	ref := r.launch()
	resp := r.plane.Report() // by a supervisor that was started again for nothing else
	equal(t, "text", resp.Text, "finished")
	equal(t, "outcome", resp.Outcome, "ok")
	r.gone()
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "alarms", p.Alarms, 0)
		equal(t, "stored", len(p.Reports), 1)
	})
	if again, err := r.runner.Launch(t.Context(), r.spec()); err != nil || again != ref {
		t.Errorf("launch again: %q, %v", again, err)
	}
	r.plane.Do(func(p *planetest.Plane) { equal(t, "posted", p.Posted, 1) })
}

func TestASupervisorStartedAgainInTheMiddleReportsACrashAndRunsNothing(t *testing.T) {
	req.Covers(t, "AG-003", "CR-017")
	r := newRig(t, `echo x >> runs; sleep 1000`)
	r.dieAt("agent")
	r.launch()
	r.gone()
	cmd := supervise(r)
	must(t, cmd.Run())
	resp := r.plane.Report()
	equal(t, "outcome", resp.Outcome, "crashed")
	runs, _ := os.ReadFile(filepath.Join(r.ws.Tree, "runs")) // it may have died before it wrote anything
	if n := strings.Count(string(runs), "x"); n > 1 {
		t.Errorf("the agent was started %d times", n)
	}
}

// The control plane dies and comes back at another port, while the agent works.
func TestARunOutlivesItsControlPlaneAndFindsTheNextOne(t *testing.T) {
	req.Covers(t, "SY-040", "MC-018", "AG-020", "CR-017")
	r := newRig(t, `echo up; while ! test -e go; do sleep 0.02; done
		lazy-agent call lazy_raise '{"title":"t","content":"c","blocking":false}' && echo "worked on"`)
	ref := r.launch()
	r.plane.Until("the agent runs", func(p *planetest.Plane) bool {
		return len(p.Beats) > 0 && p.Beats[len(p.Beats)-1].State == "running"
	})
	r.plane.Down()
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, "go"), nil, 0o644)) // it calls a tool with nobody there
	time.Sleep(50 * time.Millisecond)                                 // and waits for one
	r.plane.Start("127.0.0.1:0")
	second := r.newRunner() // of the new control plane
	refs, err := second.Adopt()
	must(t, err)
	if len(refs) > 1 || len(refs) == 1 && refs[0] != ref {
		t.Errorf("adopted %v", refs)
	}
	if again, err := second.Launch(t.Context(), r.spec()); err != nil || again != ref {
		t.Errorf("launch again: %q, %v", again, err)
	}
	resp := r.plane.Report()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "text", resp.Text[strings.LastIndex(resp.Text, "\n")+1:], "worked on")
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "alarms", p.Alarms, 0)
		equal(t, "calls", len(p.Calls), 1)
	})
	r.gone()
}

func TestAReportIsPostedUntilItIsTaken(t *testing.T) {
	req.Covers(t, "CR-017", "SY-049")
	r := newRig(t, `echo bye`)
	r.plane.Do(func(p *planetest.Plane) {
		p.Refuse, p.RefuseFor = fault.New(fault.Unavailable, "busy"), 2
		cut := true
		p.Hook = func(op string, w http.ResponseWriter) bool {
			if op != "report" || !cut {
				return false
			}
			cut = false
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = c.Close()
			}
			return true
		}
	})
	resp := r.run()
	equal(t, "text", resp.Text, "bye")
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "posted", p.Posted, 3)
		equal(t, "stored", len(p.Reports), 1)
	})
}

func TestAReportThatIsRefusedForGoodEndsTheRun(t *testing.T) {
	r := newRig(t, `echo bye`)
	r.plane.Do(func(p *planetest.Plane) {
		p.Refuse, p.RefuseFor = refusal.Of(refusal.Unauthenticated), 1000
	})
	r.launch()
	rep := r.gone()
	equal(t, "exit", rep.ExitCode, 4)
	r.plane.Do(func(p *planetest.Plane) { equal(t, "posted", p.Posted, 1) })
}

func TestANonceWorksOnceAndNothingElseStartsARun(t *testing.T) {
	req.Covers(t, "AG-025")
	r := newRig(t, `echo bye`)
	r.run()
	// The same nonce under another epoch: the control plane refuses, nothing runs.
	r.epoch = 2
	r.launch()
	rep := r.gone()
	equal(t, "exit", rep.ExitCode, 4)
	r.plane.Do(func(p *planetest.Plane) {
		equal(t, "alarms", p.Alarms, 1)
		equal(t, "reports", len(p.Reports), 1)
	})
	if _, err := os.Stat(filepath.Join(r.runDir(), spool.AgentLog)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an agent ran: %v", err)
	}
}

func TestASupersededRunIsStoppedAndItsAnswerIsHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, `echo started; sleep 1000`)
	r.launch()
	r.plane.Until("the agent runs", func(p *planetest.Plane) bool {
		return len(p.Beats) > 0 && p.Beats[len(p.Beats)-1].State == "running"
	})
	r.plane.Do(func(p *planetest.Plane) { p.Fenced = true })
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, "x"), nil, 0o644))
	resp := r.plane.Report()
	equal(t, "outcome", resp.Outcome, "stopped")
	equal(t, "stopped", resp.Stopped, turn.StopAsked)
	r.gone()
	var ack spool.Acked
	_, err := spool.Read(r.runDir(), spool.AckedFile, &ack)
	must(t, err)
	equal(t, "history", ack.History, true)
}
