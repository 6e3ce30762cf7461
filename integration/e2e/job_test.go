package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// commits is an agent that changes a file, commits and declares.
const commits = `set -e
echo "work of $LAZY_TASK_CODE" >> work.txt
lazy-agent call lazy_commit '{"message":"do the work"}' >/dev/null
lazy-agent call lazy_final '{"note":"done"}' >/dev/null
echo finished
`

func TestTheMainJobEndsWithOneMergeCommitOnTheTarget(t *testing.T) {
	req.Covers(t, "HA-001", "HA-020", "AP-005", "GT-005", "AG-002")
	w := begin(t, commits, "")
	before := git(t, w.root, "rev-parse", "main")
	w.call("createTask", map[string]any{"goal": "Do the work", "prompt": "please", "code": "job"})
	w.call("startTask", map[string]any{"task_id": "job"})
	if got := w.rest("job")["status"]; got != "blocked" {
		t.Fatalf("after its turn the task is %v", got)
	}
	show := w.call("showTask", map[string]any{"task_id": "job"})
	if final, _ := show["final"].(map[string]any); final == nil {
		t.Errorf("the declaration is not on the record: %v", show["final"])
	}
	end := w.call("acceptTask", map[string]any{"task_id": "job", "reason": "good"})
	head := git(t, w.root, "rev-parse", "main")
	if end["status"] != "complete" || end["merge_sha"] != head {
		t.Errorf("the accept answered %v, and main is at %s", end, head)
	}
	if parent := git(t, w.root, "rev-parse", "main^"); parent != before {
		t.Errorf("the merge has parent %s, main was at %s", parent, before)
	}
	if n := git(t, w.root, "rev-list", "--count", before+"..main"); n != "1" {
		t.Errorf("%s commits landed, want one", n)
	}
	if got := git(t, w.root, "show", "main:work.txt"); got != "work of job" {
		t.Errorf("what landed is %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(w.root, "work.txt")); err != nil || string(b) != "work of job\n" {
		t.Errorf("the checked-out target does not hold the file: %q, %v", b, err)
	}
	if st := git(t, w.root, "status", "--porcelain"); st != "" {
		t.Errorf("the person's checkout is not clean: %s", st)
	}
	if b := git(t, w.root, "branch", "--list", "lazy/*"); b != "" {
		t.Errorf("the task's branch is still there: %s", b)
	}
}

func TestOneOfManyStartsWinsAndTheOthersAreToldWho(t *testing.T) {
	req.Covers(t, "P1", "SY-010", "OT-045", "OT-027")
	w := begin(t, "sleep 1", "")
	w.call("createTask", map[string]any{"goal": "Race", "prompt": "x", "code": "race"})
	var mu sync.Mutex
	won := map[string]bool{}
	told := 0
	race(64, func(int) {
		c := client.Client{Base: w.plane.URL, Token: w.plane.Token, HTTP: httpClient()}
		var out map[string]any
		err := c.Call(t.Context(), "startTask", map[string]any{"task_id": "race"}, &out)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			won[fmt.Sprint(out["turn_id"])] = true
		case refusal.Is(err, refusal.TaskBusy) && strings.Contains(fault.Of(err).Public, "Ada <ada@example.com>"):
			told++
		default:
			t.Errorf("a loser got %v", err)
		}
	})
	if len(won) != 1 || told != 63 {
		t.Errorf("%d winners and %d told who won, want 1 and 63", len(won), told)
	}
	w.rest("race")
	runs, err := filepath.Glob(filepath.Join(w.paths.Dir, "runs", "*", "*", "start.json"))
	if err != nil || len(runs) != 1 {
		t.Errorf("%d runs were launched (%v), want 1", len(runs), err)
	}
	if n := len(turns(w, "race")); n != 2 {
		t.Errorf("%d turns are on record, want the start and its answer", n)
	}
}

func turns(w *world, code string) []any {
	show := w.call("showTask", map[string]any{"task_id": code, "sections": []string{"turns"}})
	page, _ := show["turns"].(map[string]any)
	items, _ := page["items"].([]any)
	return items
}

func TestAMegabyteOfPromptReachesTheAgentUnharmed(t *testing.T) {
	req.Covers(t, "SA-005", "SA-006")
	prompt := strings.Repeat("Zeile mit Ümläuten, 😀 und \"Anführung\" $HOME `x` \u202ertl\u202c\n", 18000)
	w := begin(t, `set -e
wc -c < "$LAZY_PROMPT_FILE" > size.txt
grep -c 'Zeile mit Ümläuten, 😀 und "Anführung" $HOME `+"`x`"+`' "$LAZY_PROMPT_FILE" > lines.txt
lazy-agent call lazy_commit '{"message":"sizes"}' >/dev/null
`, "")
	w.call("createTask", map[string]any{"goal": "Read a lot", "prompt": prompt, "code": "big"})
	w.call("startTask", map[string]any{"task_id": "big"})
	w.rest("big")
	if got := git(t, w.root, "show", "lazy/big:lines.txt"); got != "18000" {
		t.Errorf("%s of 18000 lines arrived", got)
	}
}

func TestFeedbackReachesTheNextTurnAndTheSessionGoesOn(t *testing.T) {
	req.Covers(t, "HA-003", "CR-012", "AN-005")
	w := begin(t, `set -e
cp "$LAZY_PROMPT_FILE" prompt.txt
lazy-agent call lazy_commit '{"message":"keep the prompt"}' >/dev/null
`, "")
	w.call("createTask", map[string]any{"goal": "Listen", "prompt": "first words", "code": "ear"})
	w.call("startTask", map[string]any{"task_id": "ear"})
	w.rest("ear")
	w.call("addComment", map[string]any{"task_id": "ear", "message": "a comment rides along"})
	w.call("unblockTask", map[string]any{"task_id": "ear", "feedback": "second words"})
	w.rest("ear")
	got := git(t, w.root, "show", "lazy/ear:prompt.txt")
	for _, want := range []string{"second words", "a comment rides along"} {
		if !strings.Contains(got, want) {
			t.Errorf("the second prompt lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "first words") {
		t.Errorf("the first prompt was delivered again although its turn ended normally:\n%s", got)
	}
}

func TestAWorkspaceIsMadeUsableBeforeTheFirstTurn(t *testing.T) {
	w := begin(t, `set -e
cat made-by-setup.txt local.env > seen.txt
lazy-agent call lazy_commit '{"message":"seen","files":["seen.txt"]}' >/dev/null
`, "[workspace]\nsetup = \"echo set up; echo ready > made-by-setup.txt\"\ncopy = [\"local.env\"]\n")
	write(t, w.root, ".gitignore", "local.env\nmade-by-setup.txt\n")
	git(t, w.root, "add", ".gitignore")
	git(t, w.root, "commit", "-qm", "ignore")
	write(t, w.root, "local.env", "SECRET_FREE=1\n")
	w.call("createTask", map[string]any{"goal": "Use it", "prompt": "x", "code": "ws"})
	w.call("startTask", map[string]any{"task_id": "ws"})
	w.rest("ws")
	if got := git(t, w.root, "show", "lazy/ws:seen.txt"); got != "ready\nSECRET_FREE=1" {
		t.Errorf("the agent saw %q", got)
	}
	show := fmt.Sprint(w.call("showTask", map[string]any{"task_id": "ws", "sections": []string{"summary", "turns"}}))
	if !strings.Contains(show, "set up") {
		t.Errorf("the setup's output is not on the turn record: %s", show)
	}
}

func TestOverlappingEditsInTheTargetsCheckoutRefuseAnAcceptByName(t *testing.T) {
	req.Covers(t, "AP-003", "AP-013", "P6")
	w := begin(t, `set -e
echo changed > README.md
lazy-agent call lazy_commit '{"message":"change"}' >/dev/null
`, "")
	w.call("createTask", map[string]any{"goal": "Overlap", "prompt": "x", "code": "over"})
	w.call("startTask", map[string]any{"task_id": "over"})
	w.rest("over")
	write(t, w.root, "README.md", "mine\n")
	write(t, w.root, "other.txt", "unrelated\n")
	_, err := w.try("acceptTask", map[string]any{"task_id": "over"})
	if !refusal.Is(err, refusal.TargetOverlap) || !strings.Contains(fault.Of(err).Public, "README.md") {
		t.Fatalf("got %v, want target_overlap naming README.md", err)
	}
	if b, rerr := os.ReadFile(filepath.Join(w.root, "README.md")); rerr != nil || string(b) != "mine\n" {
		t.Errorf("the person's edit is %q (%v)", b, rerr)
	}
	git(t, w.root, "checkout", "-q", "README.md")
	w.call("acceptTask", map[string]any{"task_id": "over"})
	if b, rerr := os.ReadFile(filepath.Join(w.root, "other.txt")); rerr != nil || string(b) != "unrelated\n" {
		t.Errorf("an edit that does not overlap is %q (%v)", b, rerr)
	}
	if _, ok := errors.AsType[*client.LostError](err); ok {
		t.Error("a refusal is no lost call")
	}
}

func TestAPlaneRestartedInMidTurnAdoptsTheRun(t *testing.T) {
	req.Covers(t, "SY-040", "AG-020", "CR-017", "MC-018")
	w := begin(t, `set -e
echo begun > begun.txt
for i in $(seq 1 600); do [ -e go ] && break; sleep 0.1; done
lazy-agent call lazy_commit '{"message":"after the restart"}' >/dev/null
`, "")
	w.call("createTask", map[string]any{"goal": "Survive", "prompt": "x", "code": "live"})
	w.call("startTask", map[string]any{"task_id": "live"})
	trees, err := filepath.Glob(filepath.Join(w.paths.Dir, "tasks", "*", "tree"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("workspaces: %v, %v", trees, err)
	}
	w.down()
	w.up()
	write(t, trees[0], "go", "")
	if got := w.rest("live")["status"]; got != "blocked" {
		t.Errorf("the adopted turn left the task %v", got)
	}
	if got := git(t, w.root, "log", "-1", "--format=%s", "lazy/live"); got != "after the restart" {
		t.Errorf("the newest commit is %q", got)
	}
	if n := len(turns(w, "live")); n != 2 {
		t.Errorf("%d turns are on record, want the input and its answer", n)
	}
}

func TestAStoppedTurnIsRecordedAsStoppedNotAsFailed(t *testing.T) {
	req.Covers(t, "HA-028")
	w := begin(t, "sleep 600", "")
	w.call("createTask", map[string]any{"goal": "Run long", "prompt": "x", "code": "long"})
	w.call("startTask", map[string]any{"task_id": "long"})
	w.call("stopTask", map[string]any{"task_id": "long"})
	if got := w.rest("long")["status"]; got != "interrupted" {
		t.Errorf("a stopped task is %v", got)
	}
	all := turns(w, "long")
	if len(all) != 2 {
		t.Fatalf("turns: %v", all)
	}
	answer, _ := all[1].(map[string]any)
	if answer["outcome"] != "stopped" || answer["failure"] != nil {
		t.Errorf("the turn's own record is %v", answer)
	}
}
