package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/op"
)

// Scenario is a story of a person's with one end, whatever dies on the way.
type Scenario struct {
	Name string
	Doc  string
	Run  func(ctx context.Context, w *World) error
}

// Scenarios lists all of them.
func Scenarios() []Scenario {
	return []Scenario{
		{"accept", "create, start, work, commit, declare, accept", func(ctx context.Context, w *World) error {
			return w.oneTask(ctx, "one")
		}},
		{"twice", "the same twice in a row", func(ctx context.Context, w *World) error {
			if err := w.oneTask(ctx, "one"); err != nil {
				return err
			}
			if err := w.oneTask(ctx, "two"); err != nil {
				return err
			}
			return w.Landed(ctx, "main", "one", "two")
		}},
		{"unblock", "a second turn with feedback, then accept", unblock},
		{"stop", "stop a working turn, unblock it, accept", stop},
		{"reject", "reject a task whose turn runs", reject},
		{"agent", "the agent is killed in its turn", func(ctx context.Context, w *World) error {
			if _, err := w.make(ctx, "one", "RUN:die:one"); err != nil {
				return err
			}
			return w.acceptOne(ctx, "one")
		}},
		{"dirty", "accept on a checked out target with unrelated edits", dirty},
		{"subtask", "an agent creates, starts and accepts a subtask in its own branch", subtask},
		{"runner", "the supervisor is killed in the middle of a turn", func(ctx context.Context, w *World) error {
			return cut(ctx, w, w.KillSupervisors)
		}},
		{"sandbox", "the sandbox is killed in the middle of a turn", func(ctx context.Context, w *World) error {
			return cut(ctx, w, w.KillSandbox)
		}},
		{"restart", "the plane is restarted under three live turns", restart},
	}
}

// make creates and starts a task.
func (w *World) make(ctx context.Context, code, prompt string) (id.Task, error) {
	var made op.Created
	if err := w.Call(ctx, "createTask", Args{"goal": "do " + code, "prompt": prompt, "code": code}, &made); err != nil {
		return "", err
	}
	return made.TaskID, w.Call(ctx, "startTask", Args{"task_id": code}, nil)
}

// rested waits for the end of a turn. A task that was given up on automatic
// resumes is resumed by the person.
func (w *World) rested(ctx context.Context, code string) error {
	_, err := w.Await(ctx, code, "blocked")
	return err
}

// acceptOne waits for the turn, accepts, and waits for the merge.
func (w *World) acceptOne(ctx context.Context, code string) error {
	if err := w.rested(ctx, code); err != nil {
		return err
	}
	if err := w.Call(ctx, "acceptTask", Args{"task_id": code}, nil); err != nil {
		return err
	}
	_, err := w.Await(ctx, code, "complete")
	return err
}

func (w *World) oneTask(ctx context.Context, code string) error {
	if _, err := w.make(ctx, code, "RUN:make:"+code); err != nil {
		return err
	}
	if err := w.acceptOne(ctx, code); err != nil {
		return err
	}
	head, err := w.Git(ctx, "show", "main:"+code+".txt")
	if err == nil && head != code {
		err = fmt.Errorf("%s.txt on main is %q", code, head)
	}
	return err
}

func unblock(ctx context.Context, w *World) error {
	if _, err := w.make(ctx, "one", "RUN:make:one"); err != nil {
		return err
	}
	if err := w.rested(ctx, "one"); err != nil {
		return err
	}
	if err := w.Call(ctx, "unblockTask", Args{"task_id": "one", "feedback": "RUN:make:more"}, nil); err != nil {
		return err
	}
	if err := w.acceptOne(ctx, "one"); err != nil {
		return err
	}
	for _, name := range []string{"one", "more"} {
		if got, err := w.Git(ctx, "show", "main:"+name+".txt"); err != nil || got != name {
			return fmt.Errorf("%s.txt on main is %q: %w", name, got, err)
		}
	}
	return w.Landed(ctx, "main", "one")
}

// held waits until the agent of a task is at work on its file.
func (w *World) held(ctx context.Context, t id.Task, name string) error {
	return w.until(ctx, name+".txt is written", func() (bool, error) {
		s, err := w.Status(ctx, t.Short())
		if err != nil {
			return false, err
		}
		if string(s.Status) != "working" && string(s.Status) != "interrupted" {
			return false, fmt.Errorf("it is %s (%s)", s.Status, s.Why)
		}
		_, err = os.Stat(filepath.Join(w.Tree(t), name+".txt"))
		if err == nil {
			return true, nil
		}
		if (w.shaken.Load() || len(w.Died()) > 0) && !w.alive(t.Short()) {
			return false, w.Jump(jump / 10)
		}
		return false, nil
	})
}

func stop(ctx context.Context, w *World) error {
	t, err := w.make(ctx, "one", "RUN:hang:one")
	if err != nil {
		return err
	}
	if err := w.held(ctx, t, "one"); err != nil {
		return err
	}
	if err := w.Call(ctx, "stopTask", Args{"task_id": "one"}, nil); err != nil {
		return err
	}
	if _, err := w.Await(ctx, "one", "interrupted"); err != nil {
		return err
	}
	if err := w.Call(ctx, "unblockTask", Args{"task_id": "one", "feedback": "RUN:make:one"}, nil); err != nil {
		return err
	}
	if err := w.acceptOne(ctx, "one"); err != nil {
		return err
	}
	return w.Landed(ctx, "main", "one")
}

func reject(ctx context.Context, w *World) error {
	t, err := w.make(ctx, "one", "RUN:hang:one")
	if err != nil {
		return err
	}
	if err := w.held(ctx, t, "one"); err != nil {
		return err
	}
	if err := w.Call(ctx, "rejectTask", Args{"task_id": "one", "reason": "not wanted"}, nil); err != nil {
		return err
	}
	if _, err := w.Await(ctx, "one", "abandoned"); err != nil {
		return err
	}
	return w.Landed(ctx, "main")
}

// dirty has edits in the person's checkout that the landing does not touch: they
// are there afterwards, staged or not as they were.
func dirty(ctx context.Context, w *World) error {
	notes := filepath.Join(w.Repo, "notes.txt")
	if err := os.WriteFile(notes, []byte("one\ntwo\nmine\n"), 0o644); err != nil {
		return err
	}
	staged := filepath.Join(w.Repo, "staged.txt")
	if err := os.WriteFile(staged, []byte("staged\n"), 0o644); err != nil {
		return err
	}
	if _, err := w.Git(ctx, "add", "staged.txt"); err != nil {
		return err
	}
	if err := w.oneTask(ctx, "one"); err != nil {
		return err
	}
	got, err := w.Git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if want := " M notes.txt\nA  staged.txt"; got != want {
		return fmt.Errorf("the checkout shows\n%s\nwant\n%s", got, want)
	}
	if b, err := os.ReadFile(notes); err != nil || string(b) != "one\ntwo\nmine\n" {
		return fmt.Errorf("notes.txt is %q: %w", b, err)
	}
	return w.Landed(ctx, "main", "one")
}

func subtask(ctx context.Context, w *World) error {
	if _, err := w.make(ctx, "one", "RUN:parent:one"); err != nil {
		return err
	}
	if err := w.acceptOne(ctx, "one"); err != nil {
		return err
	}
	if got, err := w.Git(ctx, "show", "main:one.txt"); err != nil || got != "one" {
		return fmt.Errorf("one.txt on main is %q: %w", got, err)
	}
	return nil
}

// cut ends a part of a run while its agent works; the turn is taken up again, and
// nothing the agent did is lost.
func cut(ctx context.Context, w *World, kill func(short string) int) error {
	t, err := w.make(ctx, "one", "RUN:hold:one")
	if err != nil {
		return err
	}
	if err := w.held(ctx, t, "one"); err != nil {
		return err
	}
	kill(t.Short())
	if err := os.WriteFile(filepath.Join(w.Tree(t), "go-one"), nil, 0o644); err != nil {
		return err
	}
	if err := w.acceptOne(ctx, "one"); err != nil {
		return err
	}
	return w.Landed(ctx, "main", "one")
}

func restart(ctx context.Context, w *World) error {
	names := []string{"one", "two", "three"}
	ids := map[string]id.Task{}
	for _, n := range names {
		t, err := w.make(ctx, n, "RUN:hold:"+n)
		if err != nil {
			return err
		}
		ids[n] = t
	}
	for _, n := range names {
		if err := w.held(ctx, ids[n], n); err != nil {
			return err
		}
	}
	w.KillPlane()
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(w.Tree(ids[n]), "go-"+n), nil, 0o644); err != nil {
			return err
		}
	}
	for _, n := range names {
		if err := w.acceptOne(ctx, n); err != nil {
			return err
		}
	}
	return w.Landed(ctx, "main", names...)
}
