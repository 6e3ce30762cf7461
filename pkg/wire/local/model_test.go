package local_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// List makes the scripted machine searchable for what nobody owns.
func (h *host) List(context.Context) ([]runner.Seen, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []runner.Seen
	for _, s := range h.runs {
		if !s.isGone() {
			out = append(out, runner.Seen{Short: s.spec.Task.Short(), Epoch: s.spec.Epoch, Sight: runner.Alive})
		}
	}
	return out, nil
}

// act is one step of a random story.
type act struct {
	Do   string
	Task int
	How  string // what the next agents do
}

func (a act) String() string { return fmt.Sprintf("{%q, %d, %q}", a.Do, a.Task, a.How) }

var (
	commands = []string{"start", "unblock", "resume", "ask", "stop", "reject", "close", "reopen", "accept", "comment"}
	events   = []string{"restart", "killRuns", "pass", "deaf", "hear", "none", "once", "twice"}
	fates    = []string{"work", "work", "work", "fatal", "die", "die die", "die die die", "hang", "lost", "slow"}
)

func randomStory(t *rapid.T) []act {
	var out []act
	for range rapid.IntRange(4, 14).Draw(t, "length") {
		a := act{Task: rapid.IntRange(0, 1).Draw(t, "task"), How: rapid.SampledFrom(fates).Draw(t, "fate")}
		if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
			a.Do = rapid.SampledFrom(commands).Draw(t, "command")
		} else {
			a.Do = rapid.SampledFrom(events).Draw(t, "event")
		}
		out = append(out, a)
	}
	return out
}

// model is the reference: what a person may believe of one task.
type model struct {
	tid  id.Task
	code string
	said []string // words that were acknowledged, and not taken back with the task
}

// may lists the statuses from which a person's command is taken.
func may(do string) []task.Status {
	switch do {
	case "start":
		return []task.Status{task.Backlog}
	case "unblock":
		return []task.Status{task.Blocked, task.Interrupted, task.Submitted, task.Conflict}
	case "resume":
		return []task.Status{task.Blocked, task.Interrupted, task.Conflict}
	case "ask":
		return []task.Status{task.Blocked, task.Conflict}
	case "stop":
		return []task.Status{task.Working}
	case "reject":
		return []task.Status{task.Working, task.Blocked, task.Interrupted, task.Submitted, task.Conflict}
	case "close":
		return []task.Status{task.Backlog, task.Working, task.Blocked, task.Interrupted, task.Submitted, task.Conflict}
	case "reopen":
		return []task.Status{task.Complete, task.Abandoned}
	case "accept":
		return []task.Status{task.Blocked, task.Submitted, task.Conflict}
	}
	return task.Statuses()
}

// after lists the statuses in which a taken command may leave a task at rest.
func after(do, how string) []task.Status {
	switch do {
	case "start", "unblock", "resume":
		switch how {
		case "hang":
			return []task.Status{task.Working}
		case "die die die":
			return []task.Status{task.Interrupted, task.Blocked}
		}
		return []task.Status{task.Blocked}
	case "ask":
		return []task.Status{task.Blocked, task.Working}
	case "stop":
		return []task.Status{task.Interrupted, task.Blocked}
	case "reject", "close":
		return []task.Status{task.Abandoned}
	case "reopen":
		return []task.Status{task.Blocked, task.Backlog}
	case "accept":
		return []task.Status{task.Complete}
	}
	return nil
}

// fate queues what the next runs do.
func (r *rig) fate(how string, n int) {
	file := fmt.Sprintf("f%d.txt", n)
	for w := range strings.FieldsSeq(how) {
		switch w {
		case "work":
			r.host.next(work(file, how))
		case "fatal":
			r.host.next(func(s *sup) {
				s.begin()
				s.settle(turn.Response{Outcome: "error", Failure: &turn.Failure{Class: turn.FatalAuth, Reason: "not logged in"}})
			})
		case "die":
			r.host.next(func(s *sup) { s.begin(); s.write(file, "half"); s.die(137, "OOM killed or SIGKILL (exit code 137)") })
		case "hang":
			r.host.next(func(s *sup) {
				s.begin()
				s.goOn(5 * time.Hour)
				s.settle(turn.Response{Outcome: "stopped", Stopped: turn.StopAsked})
			})
		case "lost":
			r.host.loseNext(1)
			r.host.next(work(file, how))
		case "slow":
			r.host.next(func(s *sup) { s.begin(); s.goOn(70 * time.Second); work(file, how)(s) })
		}
	}
}

// playOut plays a story and returns the first thing that is not as it must be.
func playOut(r *rig, acts []act) error {
	ms := []*model{{code: "one"}, {code: "two"}}
	for _, m := range ms {
		m.tid = r.create(m.code)
	}
	for i, a := range acts {
		if err := r.take(ms[a.Task], i, a); err != nil {
			return fmt.Errorf("step %d %v: %w", i, a, err)
		}
		if err := r.sane(ms); err != nil {
			return fmt.Errorf("after step %d %v: %w", i, a, err)
		}
	}
	return nil
}

func (r *rig) take(m *model, n int, a act) error {
	switch a.Do {
	case "restart":
		r.down()
		time.Sleep(time.Second)
		r.up()
	case "killRuns":
		r.host.mu.Lock()
		for _, s := range r.host.runs {
			if !s.isGone() {
				s.end("killed")
			}
		}
		r.host.mu.Unlock()
	case "pass":
		time.Sleep(30 * time.Minute)
	case "deaf", "hear":
		r.host.beDeaf(a.Do == "deaf")
	case "none", "once", "twice":
		r.deliver = slices.Index([]string{"none", "once", "twice"}, a.Do)
		r.down()
		r.up()
	default:
		if err := r.command(m, n, a); err != nil {
			return err
		}
	}
	r.calm()
	return nil
}

// calm lets everything that is under way come to rest.
func (r *rig) calm() {
	for range 20 {
		before := r.outline()
		time.Sleep(4 * time.Minute) // longer than any lost event can cost
		if r.outline() == before {
			return
		}
	}
}

func (r *rig) outline() string {
	var b strings.Builder
	for _, code := range []string{"one", "two"} {
		out, err := r.try(r.owner, "getStatus", in{"task_id": code})
		if err == nil {
			s := out["task"].(map[string]any)
			fmt.Fprintln(&b, s["status"], s["updated_at"])
		}
	}
	return b.String()
}

func (r *rig) command(m *model, n int, a act) error {
	was := r.task(m.tid)
	words := fmt.Sprintf("words number %d", n)
	r.host.mu.Lock()
	queued := len(r.host.scripts)
	r.host.mu.Unlock()
	if slices.Contains([]string{"start", "unblock", "resume"}, a.Do) && queued == 0 && slices.Contains(may(a.Do), was.Status) {
		r.fate(a.How, n)
	}
	args := in{"task_id": m.code}
	name := a.Do + "Task"
	switch a.Do {
	case "unblock":
		args["feedback"] = words
	case "ask":
		args["question"] = words
	case "reject", "close", "reopen":
		args["reason"] = words
	case "accept":
		args["allow_queued_comments"] = true
	case "comment":
		name, args["message"] = "addComment", words
	}
	_, err := r.try(r.owner, name, args)
	if !slices.Contains(may(a.Do), was.Status) {
		// Accepting what was accepted follows that accept, and changes nothing (AP-010).
		follows := a.Do == "accept" && (was.Status == task.Complete && was.Accept != nil || was.Status == task.Merging)
		if err == nil && !follows {
			return fmt.Errorf("it was taken although the task was %s", was.Status)
		}
		if now := r.task(m.tid); now.Version != was.Version {
			return errors.Join(errors.New("it was not taken, and the task changed"), err)
		}
		return nil
	}
	if err != nil {
		if a.Do == "accept" || a.Do == "comment" || a.Do == "reopen" || a.Do == "resume" {
			return nil // it has preconditions of its own
		}
		return fmt.Errorf("it was refused although the task was %s: %w", was.Status, err)
	}
	switch a.Do {
	case "unblock", "comment":
		m.said = append(m.said, words)
	case "reject", "close":
		m.said = nil
	}
	r.calm()
	if want := after(a.Do, a.How); want != nil {
		if got := r.task(m.tid); !slices.Contains(want, got.Status) {
			return fmt.Errorf("it left the task %s (%s), want one of %v", got.Status, got.Why, want)
		}
	}
	return nil
}

// sane is what holds after every step.
func (r *rig) sane(ms []*model) error {
	c, err := r.app().CheckDeep(r.t.Context(), app.Call{Who: r.owner})
	if err != nil {
		return err
	}
	if len(c.Findings) > 0 || c.Ordered > 0 {
		return fmt.Errorf("%+v", c)
	}
	if r.host.atOnce() > 1 {
		return fmt.Errorf("%d runs of one task were alive at once", r.host.atOnce())
	}
	for _, m := range ms {
		t := r.task(m.tid)
		if t.Status != task.Blocked || len(m.said) == 0 || r.lastTurn(m.tid).Outcome != "ok" || r.lastTurn(m.tid).Kind != turn.Work {
			continue
		}
		heard := ""
		for epoch := int64(1); epoch <= t.Epoch; epoch++ {
			g, _ := r.host.heard(m.tid, epoch)
			heard += g.cmd.Prompt
		}
		last := r.lastTurn(m.tid)
		for _, w := range m.said {
			// Words that came after the last prompt wait for the next one.
			if !strings.Contains(heard, w) && !r.waits(m.tid, w, last.Epoch) {
				return fmt.Errorf("the agent of %s never read %q", m.code, w)
			}
		}
	}
	return nil
}

// waits reports whether words are queued for the next prompt.
func (r *rig) waits(t id.Task, w string, _ int64) bool {
	out, err := r.try(r.owner, "showTask", in{"task_id": string(t), "sections": []string{"comments"}})
	return err == nil && strings.Contains(fmt.Sprint(out["comments"]), w)
}

// alone runs one story in a bubble of its own.
func alone(t *testing.T, acts []act) (err error) {
	t.Helper()
	t.Run("story", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.close()
			r.up()
			err = playOut(r, acts)
		})
	})
	return err
}

// Random stories of commands, agents' fates, crashes of the plane and of runs,
// lost and doubled events and clock jumps, against what a person may believe.
func TestRandomStoriesKeepEveryPromise(t *testing.T) {
	req.Covers(t, "P1", "P2", "P3", "P7", "P11")
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		n := "12"
		if testing.Short() {
			n = "3"
		}
		if err := flag.Set("rapid.checks", n); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = flag.Set("rapid.checks", f.DefValue) }()
	}
	rapid.Check(t, func(rt *rapid.T) {
		acts := randomStory(rt)
		if err := alone(t, acts); err != nil {
			rt.Fatalf("%v\n%v", err, acts)
		}
	})
}
