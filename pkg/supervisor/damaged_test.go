package supervisor_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// talker is forgetful, has a model, and keeps its conversations in a directory of
// its own.
type talker struct{ forgetful }

func (talker) ID() string                              { return "talker" }
func (talker) Provider(string) string                  { return "claude" }
func (talker) Plan(l agent.Launch) (agent.Plan, error) { return modelled{}.Plan(l) }
func (talker) Classify(e agent.End) *turn.Failure      { return modelled{}.Classify(e) }
func withSession(session string) func(c *turn.Command) {
	return func(c *turn.Command) { c.Agent, c.Session = "talker", session }
}

func withHandover(words string) func(p *planetest.Plane) {
	return func(p *planetest.Plane) { p.Handover = words }
}

// A CLI waits for ever at a pipe, so it is not left to it.
func TestAPipeInPlaceOfAConversationIsNeverOpened(t *testing.T) {
	req.Covers(t, "CS-18")
	r, _ := modelRig(t, `mkdir -p "$OWN/talk/a" && mkfifo "$OWN/talk/a/s-1.jsonl" "$OWN/talk/cache" && echo made`)
	r.plane.Do(func(p *planetest.Plane) { p.Command.Agent = "talker" })
	equal(t, "outcome of the first turn", r.run().Outcome, "ok")
	r.plane.Do(withHandover("what was said before\n\n"))
	r.next(`echo "${LAZY_SESSION:-none}" >> sessions; cat "$LAZY_PROMPT_FILE" > got; ls "$OWN/talk" "$OWN/talk/a" > left; echo ok`, withSession("s-1"))
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "lost", resp.Lost, "s-1")
	equal(t, "why", resp.LostWhy, "talk/a/s-1.jsonl was a named pipe")
	equal(t, "asked for", r.file("sessions"), "none\n")
	equal(t, "prompt", r.file("got"), "what was said before\n\ndo the thing")
	if left := r.file("left"); !strings.Contains(left, "cache.damaged") || !strings.Contains(left, "s-1.jsonl.damaged") {
		t.Errorf("left in %s: %q", filepath.Join(r.runDir(), "box"), left)
	}
}

// A later version may say in words of its own that it cannot go on. What it does
// says as much: it ends, again and again, before it has asked its model anything.
func TestAConversationThatEndsItsAgentAtOnceIsBegunAfresh(t *testing.T) {
	req.Covers(t, "CS-18")
	r, _ := modelRig(t, `echo "${LAZY_SESSION:-none}" >> sessions; cat "$LAZY_PROMPT_FILE" > got
		[ -z "$LAZY_SESSION" ] || { echo 'the archive speaks an older dialect' >&2; exit 1; }; echo ok`)
	r.plane.Do(withHandover("what was said before\n\n"))
	r.plane.Do(func(p *planetest.Plane) { withSession("s-1")(&p.Command) })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "asked for", r.file("sessions"), "s-1\ns-1\nnone\n")
	equal(t, "lost", resp.Lost, "s-1")
	equal(t, "prompt", r.file("got"), "what was said before\n\ndo the thing")
	if !strings.Contains(resp.LostWhy, "2 times") || !strings.Contains(resp.LostWhy, "the archive speaks an older dialect") {
		t.Errorf("why: %q", resp.LostWhy)
	}
}

// An agent that has asked its model could read its conversation: whatever ends it
// afterwards, that is kept.
func TestAConversationThatWasReadIsKept(t *testing.T) {
	r, calls := modelRig(t, callModel+`echo "${LAZY_SESSION:-none}" >> sessions; c > answer
		[ $(wc -l < sessions) -ge 3 ] || { echo 'something else broke' >&2; exit 1; }; echo ok`)
	r.plane.Do(func(p *planetest.Plane) { withSession("s-1")(&p.Command) })
	resp := r.run()
	if got := r.file("sessions"); resp.Lost != "" || strings.Contains(got, "none") || calls() == 0 {
		t.Errorf("lost %q because of %q after %d calls; asked for %q", resp.Lost, resp.LostWhy, calls(), got)
	}
}
