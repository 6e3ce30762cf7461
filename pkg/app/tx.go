package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// tries bounds how often a use case starts over after losing a race on a row it
// may still change. Each round reads again and decides again.
const tries = 64

// change is what a use case wants to commit about one task.
type change struct {
	task    task.Task // as it should be; Version is set by commit
	history []task.History
	writes  []store.Write
	jobs    []Job
	// op is the operation that the change begins.
	op *Op
	// result is stored under the call's idempotency key in the same transaction:
	// with the operation where its id is the key's own, else in a row for it alone,
	// unless one of writes has it already, which answered says.
	result   any
	answered bool
	// silent leaves the task row alone: only writes are committed.
	silent bool
	// follow says that work follows which can be told from the row the change is
	// about: the task, or the first of its writes when it is silent. That row takes
	// the place of an outbox row.
	follow bool
	// places is where the task's row is in the indexes before the change.
	places map[store.Index]store.Slot
}

// mutate is the one way a task row changes. It loads the task, lets decide say
// what to do with it, and commits that on condition that nobody wrote in
// between; a lost race decides again on what the winner left. decide must be
// pure but for reads.
func (a *App) mutate(ctx context.Context, c Call, tenant string, tid id.Task, decide func(task.Task) (change, error)) (change, error) {
	for n := 0; ; n++ {
		it, err := a.Store.Get(ctx, store.For(tenant).Task(tid).Meta())
		if errors.Is(err, store.ErrNotFound) {
			return change{}, refusal.Of(refusal.NotFound, "task", tid)
		}
		if err != nil {
			return change{}, err
		}
		t, err := decode[task.Task](it)
		if err != nil {
			return change{}, err
		}
		ch, err := decide(t)
		if err != nil {
			return change{}, a.ownResult(ctx, c, err)
		}
		ch.places = it.Index
		ch, err = a.commit(ctx, c, t, ch)
		var lost *store.ConflictError
		if (errors.As(err, &lost) || errors.Is(err, store.ErrContention)) && !isIdem(c, lost) {
			if n < tries && ctx.Err() == nil {
				continue
			}
			err = fault.Wrap(fault.Unavailable, err, "others keep changing this task; nothing was written")
		}
		return ch, err
	}
}

// commit writes one change: the task row on condition of the version read, its
// live row, history, outbox and idempotency rows, all or nothing.
func (a *App) commit(ctx context.Context, c Call, was task.Task, ch change) (change, error) {
	ws := append([]store.Write(nil), ch.writes...)
	p := a.part(was)
	now := a.Now()
	if !ch.silent {
		ch.task.Version = was.Version + 1
		ch.task.Updated = now
		w := taskWrite(p.Meta(), ch.task, was.Version)
		if ch.follow {
			w.Item.Attr[store.AttrFollow] = true
		}
		w.Item.Index = a.placesOf(ch, was, now)
		ws = append(ws, w)
		if listed(ch.task) != listed(was) || was.Version == 0 {
			ws = append(ws, liveWrite(ch.task))
		}
		for i, h := range ch.history {
			h.Version = ch.task.Version
			hk := p.History(ch.task.Version)
			if i > 0 {
				hk = p.Key(fmt.Sprintf("%s.%d", hk.SK, i))
			}
			ws = append(ws, historyWrite(hk, was.Project, h))
		}
	}
	var out []store.Key
	if ch.follow {
		out = append(out, p.Meta())
		if ch.silent {
			out[0] = ws[0].Item.Key
			ws[0].Item.Attr[store.AttrFollow] = true
		}
	}
	for i, j := range ch.jobs {
		name := fmt.Sprintf("%08d.%d", ch.task.Version, i)
		if ch.silent {
			name = j.Name
		}
		w := a.jobWrite(was, ch.task.Version, name, j, now)
		ws = append(ws, w)
		if j.After.IsZero() {
			out = append(out, w.Item.Key)
		}
	}
	answered := ch.answered || c.Key == ""
	if o := ch.op; o != nil {
		w, keyed := a.opWrite(was.Tenant, c, *o, ch.result)
		answered = answered || keyed
		ws = append(ws, w)
	}
	if !answered {
		ws = append(ws, a.idemWrite(was.Tenant, c, was.ID, ch.result, now))
	}
	if len(ws) == 0 {
		return ch, nil
	}
	if err := a.transact(ctx, c, ws); err != nil {
		return ch, err
	}
	a.tell(ctx, ws)
	a.hub.wake(string(was.ID))
	for _, k := range out {
		a.publish(k)
	}
	return ch, nil
}

// placesOf is where a changed task's row is put in the indexes. A place in the due
// index that comes early enough is kept, since a move is two writes more: an early
// visit finds nothing and gives the next time. So is the place of a finished task.
func (a *App) placesOf(ch change, was task.Task, now time.Time) map[store.Index]store.Slot {
	to := map[store.Index]store.Slot{}
	at := a.dueTask(ch.task, now)
	if ch.follow {
		at = now.Add(names.OutboxFirst)
	}
	if !at.IsZero() {
		to[store.Due] = store.DueAt(a.part(was).Meta(), at)
		if cur, ok := store.DueTime(ch.places[store.Due]); ok && cur.After(now) && !cur.After(at) {
			to[store.Due] = ch.places[store.Due]
		}
	}
	if ch.task.Status.Terminal() {
		to[store.Past] = store.PastAt(store.For(was.Tenant).Project(was.Project), now, was.ID)
		if kept, ok := ch.places[store.Past]; ok && was.Status.Terminal() {
			to[store.Past] = kept
		}
	}
	return to
}

// listed is what a listing shows of a task. Its time of change is that of the last
// change which shows, so that the steps of a flow do not write the row each time.
func listed(t task.Task) string {
	l := liveOf(t)
	l.Updated = time.Time{}
	if t.Status == task.Working {
		l.Commits = 0 // a listing reads them off the task while it works
	}
	return string(encode(l))
}

// jobWrite is the outbox row of work that follows from t's change to version.
func (a *App) jobWrite(t task.Task, version int64, name string, j Job, now time.Time) store.Write {
	j.Tenant, j.Project, j.Task, j.Version = t.Tenant, t.Project, t.ID, version
	k := a.part(t).Outbox(name)
	w := put(k, "job", j)
	due := j.After
	if due.IsZero() {
		due = now.Add(names.OutboxFirst)
	}
	w.Item.Index = map[store.Index]store.Slot{store.Due: store.DueAt(k, due)}
	return w
}

func (a *App) publish(k store.Key) {
	if a.Publish != nil {
		a.Publish(k)
	}
}

// transact commits ws. A refused idempotency row becomes Replayed or key_reused,
// unless it has outlived its time without being collected: then it is replaced.
// Any other conflict is left to the caller, who reads again.
func (a *App) transact(ctx context.Context, c Call, ws []store.Write) error {
	err := a.Store.Transact(ctx, ws...)
	var lost *store.ConflictError
	if !errors.As(err, &lost) || !isIdem(c, lost) {
		return err
	}
	row, derr := decode[Idem](lost.Current)
	if derr != nil {
		return derr
	}
	if err := a.replay(c, row); err != nil {
		return err
	}
	if !strings.Contains(lost.Key.PK, "#IDEM#") {
		return fault.Wrap(fault.Unavailable, err, "another request under this idempotency key came first; nothing was written")
	}
	ws[lost.Write].If = []store.Cond{store.FieldIs("at", lost.Current.Int("at"))}
	return a.Store.Transact(ctx, ws...)
}

// move applies one edge of the table to the change.
func (a *App) move(ch *change, c task.Change) error {
	if c.At.IsZero() {
		c.At = a.Now()
	}
	c.ID = a.IDs.New()
	next, h, err := task.Apply(ch.task, c)
	if err != nil {
		return err
	}
	ch.task = next
	ch.history = append(ch.history, h)
	return nil
}

// busy is the refusal of a verb that needs an idle task.
func busy(t task.Task) error {
	return refusal.Of(refusal.TaskBusy, t.Name(), t.Status.Words(), t.Last.Actor.String(), t.Last.At.UTC().Format(time.RFC3339)).
		WithDetail("by", t.Last.Actor).WithDetail("did", t.Last.Did).WithDetail("at", t.Last.At).WithDetail("turn_id", t.Turn)
}

// fenced is the refusal of a run that has been succeeded.
func fenced(t task.Task, epoch int64) error {
	return refusal.Of(refusal.Fenced, epoch, t.Name(), t.Epoch)
}

// target resolves what a request addresses and checks the caller's relation to
// it. The relation holds through the write because the write is conditional on
// the version read here (CM-035).
func (a *App) target(ctx context.Context, c Call, word string) (task.Task, error) {
	t, err := a.find(ctx, c.Who, word)
	if err != nil {
		return task.Task{}, err
	}
	return t, related(c, t)
}

func related(c Call, t task.Task) error {
	if c.Who.Kind != identity.Task || c.Rule.Agent == Any {
		return nil
	}
	self := c.Who.Task()
	rel := Other
	switch {
	case t.ID == self:
		rel = Self
	case t.Parent == self:
		rel = Child
	}
	if c.Rule.Agent&rel != 0 {
		return nil
	}
	code := c.Rule.Else
	if rel == Self && c.Rule.Self != "" {
		code = c.Rule.Self
	}
	return relationRefusal(refusal.Code(code), c, t, rel)
}

func relationRefusal(code refusal.Code, c Call, t task.Task, rel Reach) error {
	self := c.Who.Task().Short()
	switch code {
	case refusal.NotYourSubtree:
		return refusal.Of(code, c.Tool, t.Name(), self)
	case refusal.StartChildrenOnly:
		whose := "not yours"
		if rel == Self {
			whose = "your own task"
		}
		return refusal.Of(code, self, t.Name(), whose)
	case refusal.AnnotateChildrenOnly:
		return refusal.Of(code, t.Name())
	case refusal.AcceptSelf, refusal.AcceptChildrenOnly:
		return refusal.Of(code, self)
	case refusal.SelfTerminating:
		return refusal.Of(code, c.Tool, self)
	case refusal.AnnotateSelfComment, refusal.AnnotateSelfTag, refusal.SelfWait:
		return refusal.Of(code)
	}
	return fault.New(fault.Internal, "operation %s names no refusal for its relation", c.Tool)
}
