package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// input is the constant input of an execution (WF-21).
func (a *App) input(tenant, opID string, n int) []byte {
	b, err := json.Marshal(map[string]any{"v": 1, "tenant": tenant, "turn": opID, "n": n})
	if err != nil {
		panic(err) // a map of strings and numbers
	}
	return b
}

// Consume does the work of one outbox row and removes the row. It is safe to
// call any number of times in any order: every job is idempotent (P11). A failure
// moves the row's due time with growing delay (SY-021).
func (a *App) Consume(ctx context.Context, k store.Key) error {
	it, err := a.Store.Get(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if it.Str(store.AttrType) != "job" {
		return a.followUp(ctx, it)
	}
	j, err := decode[Job](it)
	if err != nil {
		return err
	}
	if err := a.do(ctx, j); err != nil {
		return errors.Join(err, a.postpone(ctx, it, j, err))
	}
	err = a.Store.Transact(ctx, store.Write{Act: store.Delete, Item: store.Item{Key: k}})
	a.hub.wake(string(j.Task))
	return err
}

// followUp does what follows from a row that takes the place of an outbox row. It
// is told from what the row says, not from what was written when: a repetition
// finds it done. Work that fails gets an outbox row of its own.
func (a *App) followUp(ctx context.Context, it store.Item) error {
	var j Job
	switch it.Str(store.AttrType) {
	case "transfer":
		tr, err := decode[Transfer](it)
		if err != nil {
			return err
		}
		return a.serveTransfer(ctx, it.Key, tr)
	case "task":
		t, err := decode[task.Task](it)
		if err != nil {
			return err
		}
		j = Job{Kind: StartFlow, Tenant: t.Tenant, Project: t.Project, Task: t.ID, Epoch: t.Epoch}
		switch {
		case t.Status == task.Working && t.Claimed:
			j.Flow, j.Turn, j.N = names.MachineTurn, string(t.Turn), 1
		case t.Status == task.Merging && t.Accept != nil:
			j.Flow, j.Turn, j.N = names.MachineAccept, t.Accept.Operation, t.Accept.N
		default:
			return nil
		}
		j.Exec = fmt.Sprintf("%s-%d", j.Turn, j.N)
		j.Name = "flow-" + j.Exec
	case "run":
		r, err := decode[turn.Run](it)
		if err != nil {
			return err
		}
		j = Job{Kind: AnswerToken, Tenant: store.TenantOf(it.Key), Task: r.Task, Turn: string(r.Turn), Epoch: r.Epoch}
		j.Name = fmt.Sprintf("%s-%d", j.Kind, r.Epoch)
	case "response":
		resp, err := decode[turn.Response](it)
		if err != nil {
			return err
		}
		j = Job{Kind: Answered, Tenant: store.TenantOf(it.Key), Task: store.TaskOf(it.Key), Turn: string(resp.Turn), Epoch: resp.Epoch}
		j.Name = fmt.Sprintf("%s-%d", j.Kind, resp.Epoch)
	default:
		return fmt.Errorf("a row of type %q asks for no work", it.Str(store.AttrType))
	}
	err := a.do(ctx, j)
	if err != nil {
		t, ok, terr := a.loadTask(ctx, j.Tenant, j.Task)
		if terr == nil && ok {
			j.Attempts, j.Error, j.After = 1, cut(fault.Of(err).Public, 300), a.Now().Add(names.OutboxFirst)
			terr = a.enqueue(ctx, t, j)
		}
		err = errors.Join(err, terr)
	}
	a.hub.wake(string(j.Task))
	return err
}

func (a *App) postpone(ctx context.Context, it store.Item, j Job, why error) error {
	j.Attempts++
	j.Error = cut(fault.Of(why).Public, 300)
	delay := min(names.OutboxFirst<<min(j.Attempts-1, 10), names.OutboxMost)
	w := put(it.Key, "job", j, store.Present())
	w.Item.Index = map[store.Index]store.Slot{store.Due: store.DueAt(it.Key, a.Now().Add(delay))}
	err := a.Store.Transact(ctx, w)
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return nil // somebody else did it
	}
	return err
}

func (a *App) do(ctx context.Context, j Job) error {
	t, ok, err := a.loadTask(ctx, j.Tenant, j.Task)
	if err != nil || !ok {
		return err
	}
	switch j.Kind {
	case StartFlow:
		// The order is durable before the start; a start that is repeated is the
		// same execution, a closed name has run already (SY-045).
		err := a.Engine.Start(ctx, j.Flow, j.Exec, a.input(j.Tenant, j.Turn, j.N))
		if errors.Is(err, engine.ErrNameUsed) {
			return nil
		}
		return err
	case AnswerToken:
		return a.answerToken(ctx, t, j.Epoch)
	case Answered:
		return a.answered(ctx, j)
	case EndRun:
		return a.endRun(ctx, j)
	case Clean:
		return a.cleanUp(ctx, t, j.Text)
	case Notify:
		return a.notify(ctx, j)
	}
	return fault.New(fault.Internal, "no such outbox job: %s", j.Kind)
}

// endRun ends a run from outside. A run not launched yet is ended by its flow:
// the claim is settled as stopped without an agent having run.
func (a *App) endRun(ctx context.Context, j Job) error {
	t, ok, err := a.loadTask(ctx, j.Tenant, j.Task)
	if err != nil || !ok || t.Epoch != j.Epoch || !t.Claimed {
		return err
	}
	r, ok, err := a.loadRun(ctx, t, j.Epoch)
	if err != nil || !ok {
		return err
	}
	if t.Wait != nil {
		return a.endWait(ctx, t)
	}
	if r.Ref == "" {
		return fault.New(fault.Unavailable, "run %d of %s is still being launched", j.Epoch, t.Name())
	}
	return a.Runner.Stop(ctx, r.Ref, j.Text)
}

// notify writes a one-line notice on the parent task, once: its sequence is
// claimed by the notice's own row (PT-010).
func (a *App) notify(ctx context.Context, j Job) error {
	p, ok, err := a.loadTask(ctx, j.Tenant, id.Task(j.Turn))
	if err != nil || !ok || p.Status.Terminal() {
		return err
	}
	mark := a.part(p).Key("NTC#" + string(j.Task) + "#" + fmt.Sprint(j.Version))
	_, err = a.mutate(ctx, Call{}, p.Tenant, p.ID, func(p task.Task) (change, error) {
		if _, err := a.Store.Get(ctx, mark); err == nil {
			return change{}, errSettled
		}
		ch := change{task: p}
		a.notice(&ch, j.Text)
		ch.writes = append(ch.writes, put(mark, "notice", j, store.Absent()))
		return ch, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}

func (a *App) turnOf(ctx context.Context, t task.Task, o Op) (turn.Turn, error) {
	tr, ok, err := get[turn.Turn](ctx, a.Store, a.part(t).Turn(o.Seq))
	if err == nil && !ok {
		err = fault.New(fault.Internal, "turn %d of %s is missing", o.Seq, t.ID)
	}
	return tr, err
}

// notice adds a line of lazy's own to a change: it rides with the next prompt like
// any comment and never starts a turn (PT-006).
func (a *App) notice(ch *change, said string) {
	ch.task.Comments++
	ch.writes = append(ch.writes, commentWrite(a.part(ch.task), raise.Comment{
		ID: a.IDs.New(), Seq: ch.task.Comments, Text: said, Actor: identity.SystemActor(), At: a.Now(), Version: 1,
	}, 0))
}
