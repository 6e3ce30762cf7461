package agents

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/modelfake"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor"
)

// failing is one way in which a model fails, and what has to come of it.
type failing struct {
	name  string
	model string // what a request is answered
	// asked is how often a CLI asks in one run before it gives up by itself, 0 where
	// it does not get there. OpenCode never gives up on what may pass.
	asked map[string]int
	class string
	waits []string // between the runs of the agent, after which the model answers
	final bool     // it never passes, so the task is blocked at once
}

func failings() []failing {
	const claude, codex, opencode = "claude-code", "codex", "opencode"
	return []failing{
		{name: "status-400", model: "fail 400", final: true, class: "fatal_config", asked: map[string]int{claude: 3, codex: 1, opencode: 1}},
		{name: "status-401", model: "fail 401", final: true, class: "fatal_auth", asked: map[string]int{claude: 2, codex: 2, opencode: 1}},
		{name: "refusal", model: "reply\n say Hm.\n refuse", final: true, class: "fatal_config", asked: map[string]int{claude: 2}},
		{name: "status-429", model: "fail 429", class: "transient_overload", waits: []string{"5s"}, asked: map[string]int{claude: 2, codex: 1}},
		{name: "status-429-after", model: "fail 429 after 7", class: "transient_overload", waits: []string{"7s"}, asked: map[string]int{claude: 2, codex: 2}},
		{name: "status-429-soon", model: "fail 429 after 1", class: "transient_overload", asked: map[string]int{opencode: 1}},
		{name: "status-529", model: "fail 529", class: "transient_overload", waits: []string{"5s", "10s"}, asked: map[string]int{claude: 2, codex: 4}},
		{name: "overload", model: "reply\n say Let me see.\n overload", class: "transient_overload", waits: []string{"5s"}, asked: map[string]int{claude: 4, codex: 1, opencode: 1}},
		{name: "cut", model: "reply\n say Let me see.\n cut", class: "transient_network", waits: []string{"5s"}, asked: map[string]int{claude: 4, codex: 2, opencode: 1}},
	}
}

// Each kind of failure of a model, with each CLI that gets there: its class, how
// many calls were made of it, the waits between the runs of the agent, the retry
// line on every surface, and where the task rests. Nothing counts as a crash.
func TestEachFailureOfAModelEndsAsItShould(t *testing.T) {
	req.Covers(t, "B47", "FC-001", "FC-003", "FC-006", "FC-011")
	each(t, func(t *testing.T, c cli) {
		by := cases{}
		for _, f := range failings() {
			by[f.name] = modelfake.New(modelfake.Must(f.script(c)))
		}
		w := beginWith(t, c, by, "")
		w.holdWaits()
		t.Run("rows", func(t *testing.T) {
			for _, f := range failings() {
				if f.asked[c.id] > 0 {
					t.Run(f.name, func(t *testing.T) {
						t.Parallel()
						w.of(t, by[f.name]).fails(f)
					})
				}
			}
		})
	})
}

// script is what the model answers the CLI with.
func (f failing) script(c cli) string {
	runs := max(len(f.waits), 1)
	if c.id == "opencode" {
		runs = 1
	}
	s := strings.Repeat(f.model+"\n", f.asked[c.id]*runs)
	if f.final {
		return s
	}
	return s + `
expect remember the word quince
reply
  wait seen
  call lazy_final {"note": "nothing to do"}
reply
  say Done after all.
`
}

// fails runs a task against f.
func (w *world) fails(f failing) {
	t, c := w.t, w.cli
	id := w.begin(f.name, "please remember the word quince in case-"+f.name)
	var want []string
	switch {
	case f.final:
	case c.id == "opencode":
		w.retrying(f.name, fmt.Sprintf("attempt %d (%s): ", f.asked[c.id], f.class))
	default:
		want = f.waits
		for i := range want {
			w.until("the wait before the next run", func() bool { return len(w.waits(id, supervisor.WaitRetry)) > i })
			w.retrying(f.name, fmt.Sprintf("attempt %d (%s): ", (i+1)*f.asked[c.id], f.class))
			w.elapse(id, supervisor.WaitRetry)
		}
	}
	w.model.Release("seen")
	if got := w.rest(f.name)["status"]; got != "blocked" {
		t.Errorf("it rests as %v", got)
	}
	if got := w.waits(id, supervisor.WaitRetry); !slices.Equal(got, want) {
		t.Errorf("waits: %v, want %v", got, want)
	}
	s := text(w.show(f.name))
	if strings.Contains(s, `"side":"crash"`) || strings.Contains(s, "retry_status") {
		t.Errorf("the record: %s", s)
	}
	if f.final != strings.Contains(s, `"class":"`+f.class+`"`) || f.final == strings.Contains(s, "Done after all.") {
		t.Errorf("the record: %s", s)
	}
	w.scripted()
}

// retrying waits for the retry line and looks for it on every surface.
func (w *world) retrying(code, line string) {
	w.t.Helper()
	w.until(line, func() bool {
		got, _ := w.show(code)["retry_status"].(string)
		return strings.HasPrefix(got, line)
	})
	for _, command := range []string{"getStatus", "listTasks"} {
		if s := text(w.call(command, map[string]any{})); !strings.Contains(s, line) {
			w.t.Errorf("%s does not say %q: %s", command, line, s)
		}
	}
	logs, err := filepath.Glob(filepath.Join(w.paths.Dir, "runs", w.ids[code], "*", "supervisor.log"))
	if err != nil || len(logs) != 1 {
		w.t.Fatalf("logs: %v, %v", logs, err)
	}
	b, err := os.ReadFile(logs[0])
	if err != nil || !strings.Contains(string(b), "Phase: retrying "+line) {
		w.t.Errorf("the supervisor's log does not say %q: %v", line, err)
	}
}

// cases is one model service for many tasks at once: a request belongs to the
// script whose name its conversation holds as case-⟨name⟩.
type cases map[string]*modelfake.Server

var caseName = regexp.MustCompile(`case-([a-z0-9-]+)`)

func (c cases) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	b, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	q.Body = io.NopCloser(bytes.NewReader(b))
	s := modelfake.New(nil)
	if m := caseName.FindSubmatch(b); m != nil && c[string(m[1])] != nil {
		s = c[string(m[1])]
	}
	s.ServeHTTP(w, q)
}

// of is the same world for one of its tasks, in a test of its own.
func (w *world) of(t testing.TB, m *modelfake.Server) *world {
	mine := *w
	mine.t, mine.model, mine.ids = t, m, maps.Clone(w.ids)
	return &mine
}

// begin makes a task, starts it and returns its short id.
func (w *world) begin(code, prompt string) string {
	w.t.Helper()
	id, _ := w.call("createTask", map[string]any{"goal": "Do the work", "prompt": prompt, "code": code, "model": w.cli.model})["task_id"].(string)
	if len(id) < 8 {
		w.t.Fatalf("no id of %s: %q", code, id)
	}
	if w.ids == nil {
		w.ids = map[string]string{}
	}
	w.ids[code] = id[:8]
	w.call("startTask", map[string]any{"task_id": code})
	return id[:8]
}

// What never passes ends the turn at once; the same failure again is another turn,
// and another kind of failure is told apart.
func TestTheSameFailureAgainIsAnotherRecordWithTheRealCLI(t *testing.T) {
	req.Covers(t, "FC-002", "FC-006", "FC-024")
	each(t, func(t *testing.T, c cli) {
		if c.id == "opencode" {
			return // it is slow to start, and another CLI's turns are the same to it
		}
		const asked = 2
		w := begin(t, c, strings.Repeat("fail 401\n", asked), "")
		w.start("key", "please work")
		w.rest("key")
		w.scripted()
		w.model.Add(modelfake.Must(strings.Repeat("fail 401\n", asked)))
		w.call("unblockTask", map[string]any{"task_id": "key", "feedback": "try again"})
		w.rest("key")
		if n := strings.Count(text(w.show("key")), `"class":"fatal_auth"`); n < 2 {
			t.Errorf("two equal failures left %d records: %s", n, text(w.show("key")))
		}
		w.model.Add(modelfake.Must("fail 404\nfail 404\n"))
		w.call("unblockTask", map[string]any{"task_id": "key", "feedback": "and again"})
		if got := w.rest("key")["status"]; got != "blocked" {
			t.Errorf("it rests as %v", got)
		}
		if s := text(w.show("key")); !strings.Contains(s, "fatal_config") {
			t.Errorf("the record after a refused model: %s", s)
		}
	})
}

// A very long answer is one answer: the turn ends, its words are kept as far as
// they go, and its tokens are counted.
func TestAVeryLongAnswerIsKeptAsFarAsItGoes(t *testing.T) {
	req.Covers(t, "AG-030", "CR-019")
	each(t, func(t *testing.T, c cli) {
		w := begin(t, c, "reply\n  tokens 700 9000\n  long 3000000\n", "")
		w.start("long", "please write a lot")
		if got := w.rest("long")["status"]; got != "blocked" {
			t.Errorf("it rests as %v", got)
		}
		show := w.show("long")
		s := text(show)
		if n := strings.Count(s, "All work and no play."); n < 500 || strings.Contains(s, `"failure"`) || strings.Contains(s, `"side":"crash"`) {
			t.Errorf("%d times its sentence: %.2000s", n, s)
		}
		if !regexp.MustCompile(`"output_tokens":900[01]`).MatchString(text(show["usage"])) { // a title is counted too
			t.Errorf("counted: %v", show["usage"])
		}
		w.scripted()
	})
}

// A model that declines has answered, as far as these two CLIs go: what it said
// is on the record, and nothing is tried again.
func TestAModelThatDeclinesHasAnswered(t *testing.T) {
	req.Covers(t, "FC-001")
	each(t, func(t *testing.T, c cli) {
		if c.id == "claude-code" {
			return // it tells of it as a failure
		}
		w := begin(t, c, "reply\n  say I had better not.\n  refuse\n", "")
		w.start("no", "please do what you will not")
		if got := w.rest("no")["status"]; got != "blocked" {
			t.Errorf("it rests as %v", got)
		}
		if s := text(w.show("no")); !strings.Contains(s, "I had better not.") || strings.Contains(s, `"side":"crash"`) {
			t.Errorf("the record: %s", s)
		}
		w.scripted()
	})
}

// B23: an agent whose model only keeps the connection alive makes no progress,
// whatever it prints. It is killed, started once more unless it had made a commit,
// killed again, and the turn says so; the resume that follows goes on.
func TestAModelThatOnlyKeepsTheConnectionAliveIsNoProgress(t *testing.T) {
	req.Covers(t, "B23", "FC-020", "FC-021", "FC-022", "FC-023")
	each(t, func(t *testing.T, c cli) {
		commits := c.id == "codex"
		script := "reply\n  keepalive\nreply\n  keepalive\n"
		if commits {
			script = "reply\n  call shell {\"command\": \"echo x > x.txt\"}\nreply\n  call lazy_commit {\"message\": \"x\"}\nreply\n  keepalive\n"
		}
		w := begin(t, c, script+"reply\n  call lazy_final {\"note\": \"nothing to do\"}\nreply\n  say Done after all.\n", "")
		w.holdWaits()
		id := w.begin("slow", "please work")
		stalled := func(requests int) func() bool {
			return func() bool { return w.model.Held("") && len(generations(w.model)) == requests }
		}
		if commits {
			w.until("the model stalls", stalled(3))
			w.until("the watchdog", func() bool { // steps that are read late begin it anew
				w.elapse(id, supervisor.WaitWatchdog)
				return strings.Contains(text(w.show("slow")), "no-progress watchdog")
			})
		} else {
			w.until("the model stalls", stalled(1))
			w.elapse(id, supervisor.WaitWatchdog)
			w.until("the model stalls again", stalled(2))
			w.elapse(id, supervisor.WaitWatchdog)
		}
		w.until("the turn after the resume", func() bool { return w.model.Left() == 0 })
		if got := w.rest("slow")["status"]; got != "blocked" {
			t.Errorf("it rests as %v", got)
		}
		s := text(w.show("slow"))
		again := strings.Contains(s, "it had been relaunched once already")
		if !strings.Contains(s, "no-progress watchdog") || again == commits {
			t.Errorf("the record: %s", s)
		}
		w.scripted()
	})
}

// generations are the requests that a script answered.
func generations(m *modelfake.Server) []modelfake.Request {
	return slices.DeleteFunc(m.Requests(), func(r modelfake.Request) bool { return r.Answer == 0 })
}
