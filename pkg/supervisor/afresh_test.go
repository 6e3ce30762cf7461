package supervisor_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/command"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// forgetful is a command that says when it has lost its conversation, as a CLI
// does.
type forgetful struct{ command.Driver }

var _ agent.Installed = forgetful{}

func (forgetful) ID() string                        { return "forgetful" }
func (forgetful) Install() agent.Install            { return agent.Install{Program: "forgetful"} }
func (forgetful) Versions() (oldest, newest string) { return "1", "1" }
func (forgetful) Guards() bool                      { return true }
func (forgetful) Keep() []string                    { return nil }
func (forgetful) Knows(session string) bool         { return strings.HasPrefix(session, "s-") }
func (forgetful) Holds(session string) (own, made []string) {
	return []string{"talk/*/" + session + ".jsonl"}, []string{"talk/cache"}
}

func (forgetful) Lost(e agent.End) string {
	if strings.Contains(e.Tail, "no such conversation") {
		return "no such conversation"
	}
	return ""
}

const talk = `echo "${LAZY_SESSION:-none}" >> sessions; [ -z "$LAZY_SESSION" ] || { echo 'no such conversation' >&2; exit 1; }
	cat "$LAZY_PROMPT_FILE" > got; echo ok`

func TestALostConversationIsBegunAfreshWithWhatThePlaneTellsOfIt(t *testing.T) {
	req.Covers(t, "CS-18", "AG-029")
	for session, asked := range map[string]string{"s-1": "s-1\nnone\n", "of another CLI": "none\n"} {
		t.Run(session, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, talk, func(c *turn.Command) { c.Agent, c.Session = "forgetful", session })
			r.plane.Do(func(p *planetest.Plane) { p.Handover = "what was said before\n\n" })
			resp := r.run()
			equal(t, "outcome", resp.Outcome, "ok")
			equal(t, "lost", resp.Lost, session)
			equal(t, "asked for", r.file("sessions"), asked)
			equal(t, "prompt", r.file("got"), "what was said before\n\ndo the thing")
			r.plane.Do(func(p *planetest.Plane) {
				told := 0
				for _, b := range p.Beats {
					if b.Lost == session {
						told++
					}
				}
				equal(t, "beats that ask for a handover", told, 1)
			})
		})
	}
}

// A CLI that tries again by itself need not say so: what the gateway saw is the
// retry line, and it is gone once a call goes well.
func TestARetryInsideTheAgentIsSeenAsOne(t *testing.T) {
	req.Covers(t, "FC-011")
	r, _ := modelRig(t, callModel+`c > answers; c >> answers; touch failed; while [ ! -e go ]; do sleep 0.05; done
		c >> answers; touch passed; while [ ! -e end ]; do sleep 0.05; done; echo ok`)
	var calls atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if calls.Add(1) <= 2 {
			w.WriteHeader(529)
			_, _ = w.Write([]byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"type":"message","model":"claude-x","usage":{"input_tokens":10,"output_tokens":2}}`))
	}))
	t.Cleanup(up.Close)
	r.plane.Do(func(p *planetest.Plane) { p.Model.Upstream = up.URL })
	last := func(p *planetest.Plane) turn.BeatIn {
		if len(p.Beats) == 0 {
			return turn.BeatIn{}
		}
		return p.Beats[len(p.Beats)-1]
	}
	r.launch()
	r.wrote("failed")
	r.plane.Until("a beat with the retry line", func(p *planetest.Plane) bool {
		b := last(p)
		return strings.HasPrefix(b.Retry, "attempt 2 (transient_overload): ") && b.Phase == "retrying"
	})
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, "go"), nil, 0o600))
	r.wrote("passed")
	r.plane.Until("a beat without it", func(p *planetest.Plane) bool { return last(p).Retry == "" && last(p).Phase == "" })
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, "end"), nil, 0o600))
	resp := r.plane.Report()
	r.gone()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "answers", r.file("answers"), "529\n529\n200\n")
}

// unguarded is a command whose read-only turns the sandbox has to seal.
type unguarded struct{ forgetful }

func (unguarded) Guards() bool { return false }

// A read-only turn has a sandbox of its own beside the task's, in which what the
// agent left running goes on (AG-006).
func TestASealedTurnLeavesTheServersOfTheOthersRunning(t *testing.T) {
	req.Covers(t, "AG-006", "AG-010")
	seal := func(c *turn.Command) { c.Agent = "unguarded" }
	r := newRig(t, `sleep 600 > /dev/null 2>&1 & echo $! > pid; echo up`, seal)
	equal(t, "outcome", r.run().Outcome, "ok")
	r.next(`touch written 2>/dev/null && exit 4; echo asked`, seal, func(c *turn.Command) { c.Kind, c.ReadOnly = turn.Ask, true })
	resp := r.run()
	equal(t, "outcome of the ask turn", resp.Outcome, "ok")
	equal(t, "its answer", resp.Text, "asked")
	if files, err := filepath.Glob(filepath.Join(filepath.Dir(r.runDir()), "box", "sealed", "box.json")); err != nil || len(files) > 0 {
		t.Errorf("its sandbox is left: %v, %v", files, err)
	}
	r.next(`kill -0 $(cat pid) && echo still up`, seal, func(c *turn.Command) { c.Kind, c.ReadOnly = turn.Work, false })
	equal(t, "the server", r.run().Text, "still up")
}
