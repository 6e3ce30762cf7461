package agents

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/modelfake"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// The whole job, with the CLI as it is: a goal, a turn whose agent works, raises
// and declares, a second turn that goes on in the same conversation, and one
// merge commit.
func TestAGoalBecomesAMergeCommitWithTheRealCLI(t *testing.T) {
	req.Covers(t, "AG-008", "AG-009", "CM-031", "MC-001", "HA-020")
	each(t, func(t *testing.T, c cli) {
		w := begin(t, c, `
expect write a greeting
reply
  think A file is wanted.
  say I will write the greeting.
  call shell {"command": "echo hello > greeting.txt && ls"}
reply
  call lazy_commit {"message": "add a greeting"}
reply
  call lazy_raise {"title": "Which language?", "content": "English is assumed.", "blocking": false}
reply
  call lazy_final {"note": "the greeting is there"}
reply
  tokens 500 20 300
  say The first turn is done.
`, "")
		before := git(t, w.root, "rev-parse", "main")
		w.start("greet", "Please write a greeting")
		if got := w.rest("greet")["status"]; got != "blocked" {
			t.Fatalf("after its turn the task is %v: %s", got, text(w.show("greet")))
		}
		w.scripted()
		show := w.show("greet")
		if final, _ := show["final"].(map[string]any); final == nil {
			t.Errorf("the declaration is not on the record: %s", text(show))
		}
		all := text(show)
		for _, want := range []string{"The first turn is done.", "Which language?"} {
			if !strings.Contains(all, want) {
				t.Errorf("the record lacks %q: %s", want, all)
			}
		}
		for _, r := range w.model.Requests() {
			if r.Side && r.Method != http.MethodPost {
				continue
			}
			if got := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key"); strings.TrimPrefix(got, "Bearer ") != secret {
				t.Errorf("the model was called with %q", got)
			}
		}
		w.sealed()

		w.model.Add(modelfake.Must(`
expect The first turn is done.
expect say goodbye too
reply
  call shell {"command": "cat greeting.txt && echo goodbye >> greeting.txt"}
reply
  call lazy_commit {"message": "say goodbye"}
  call lazy_final {"note": "both are there"}
reply
  say The second turn is done.
`))
		w.call("unblockTask", map[string]any{"task_id": "greet", "feedback": "please say goodbye too"})
		if got := w.rest("greet")["status"]; got != "blocked" {
			t.Fatalf("after its second turn the task is %v: %s", got, text(w.show("greet")))
		}
		w.scripted()
		end := w.call("acceptTask", map[string]any{"task_id": "greet", "reason": "good"})
		if head := git(t, w.root, "rev-parse", "main"); end["status"] != "complete" || end["merge_sha"] != head || git(t, w.root, "rev-parse", "main^") != before {
			t.Errorf("the accept answered %v, main is at %s", end, head)
		}
		if got := git(t, w.root, "show", "main:greeting.txt"); got != "hello\ngoodbye" {
			t.Errorf("what landed is %q", got)
		}
	})
}

// sealed fails the test when the credential lies anywhere that an agent writes or
// the run was kept.
func (w *world) sealed() {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.paths.Dir, "runs"), func(at string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(at)
		if err == nil && strings.Contains(string(b), secret) {
			w.t.Errorf("%s holds the credential", at)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // databases come and go
		w.t.Error(err)
	}
}

// A read-only turn answers, and neither the shell nor an edit nor a tool of ours
// writes anything, whatever the model wants.
func TestAnAskTurnCannotWriteWithTheRealCLI(t *testing.T) {
	req.Covers(t, "AG-010", "AG-011")
	each(t, func(t *testing.T, c cli) {
		edit := map[string]string{
			"claude-code": `call Write {"file_path": "TREE/written.txt", "content": "x"}`,
			"codex":       `call apply_patch {"input": "*** Begin Patch\n*** Add File: written.txt\n+x\n*** End Patch\n"}`,
			"opencode":    `call write {"filePath": "TREE/written.txt", "content": "x"}`,
		}[c.id]
		read := "" // a shell that may read has read
		if c.id == "codex" {
			read = "expect # a project"
		}
		w := begin(t, c, `
reply
  call lazy_final {"note": "nothing to do"}
reply
  say Ready.
`, "")
		w.start("ask", "Wait for questions")
		w.rest("ask")
		tree := w.tree("ask")
		w.model.Add(modelfake.Must(strings.ReplaceAll(`
expect What is in the readme
reply
  call shell {"command": "echo x > written.txt; cat README.md"}
`+read+`
reply
  `+edit+`
reply
  call lazy_commit {"message": "not allowed"}
reply
  call lazy_show {}
reply
  say It says: a project.
`, "TREE", tree)))
		head := git(t, tree, "rev-parse", "HEAD")
		w.call("askTask", map[string]any{"task_id": "ask", "question": "What is in the readme?"})
		if got := w.rest("ask")["status"]; got != "blocked" {
			t.Errorf("after the answer the task is %v", got)
		}
		if !strings.Contains(text(w.show("ask")), "It says: a project.") {
			t.Errorf("the answer is not on the record: %s", text(w.show("ask")))
		}
		if _, err := os.Stat(filepath.Join(tree, "written.txt")); err == nil {
			t.Error("a read-only turn wrote a file")
		}
		if now := git(t, tree, "rev-parse", "HEAD"); now != head {
			t.Errorf("a read-only turn moved the branch to %s", now)
		}
		for _, r := range w.model.Requests() {
			for _, tool := range r.Tools {
				if r.Answer > 0 && strings.HasSuffix(tool.Name, "lazy_commit") && r.Answer < 3 && strings.Contains(r.Text(), "What is in the readme") {
					t.Error("lazy_commit is offered in a read-only turn")
				}
			}
		}
		w.scripted()
	})
}

// tree is where the task works.
func (w *world) tree(code string) string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.paths.Dir, "tasks", "*", "tree"))
	if err != nil || len(found) != 1 {
		w.t.Fatalf("work trees of %s: %v, %v", code, found, err)
	}
	return found[0]
}
