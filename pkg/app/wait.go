package app

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Settled is a task that came to rest.
type Settled struct {
	TaskID   id.Task     `json:"task_id" jsonschema:"the task"`
	Code     string      `json:"code" jsonschema:"its code"`
	Status   task.Status `json:"status" jsonschema:"where it rests"`
	Text     string      `json:"status_text" jsonschema:"the same in the words people read"`
	HeadSHA  string      `json:"head_sha,omitempty" jsonschema:"the commit that landed, when it is complete"`
	Merge    string      `json:"merge_state,omitempty" jsonschema:"unresolved merge left in its workspace"`
	Blocking int64       `json:"open_blocking" jsonschema:"raised items that wait for a decision"`
	Final    string      `json:"final_text" jsonschema:"what its agent declared"`
	Why      string      `json:"why,omitempty" jsonschema:"why it rests or was interrupted"`
}

// Waited answers a wait.
type Waited struct {
	Settled  []Settled `json:"settled" jsonschema:"the tasks that are at rest; at least one unless the time was up"`
	Waiting  []Row     `json:"waiting,omitempty" jsonschema:"the others, when the time was up"`
	TimedOut bool      `json:"timed_out" jsonschema:"whether the time was up before any came to rest"`
	Pending  bool      `json:"pending,omitempty" jsonschema:"this request was held as long as it may be; call again with the cursor to go on waiting"`
	Cursor   string    `json:"cursor,omitempty" jsonschema:"carries the rest of the wait"`

	Operation string  `json:"operation_id,omitempty" jsonschema:"the operation that was waited for"`
	Phases    []Phase `json:"phases,omitempty" jsonschema:"its phases"`
	Answer    any     `json:"answer,omitempty" jsonschema:"what the call that began it would have answered"`
}

const (
	recheck    = time.Second
	markFor    = 30 * time.Second // a marker nobody renews is ignored after this (OB-032)
	markAgain  = 10 * time.Second
	resumeSoon = 2 * time.Minute
)

// WaitTasks waits until any of the named tasks rests. It changes nothing but the
// waiting marker on the caller's own run (CM-024). Its whole length is bounded
// however often the transport makes the caller come back.
func (a *App) WaitTasks(ctx context.Context, c Call, words []string, timeout time.Duration, cursor string) (Waited, error) {
	if timeout <= 0 || timeout > names.WaitMax {
		timeout = names.WaitMax
	}
	var ids []id.Task
	var labels []string
	for _, w := range words {
		t, err := a.target(ctx, c, w)
		if err != nil {
			return Waited{}, err
		}
		ids, labels = append(ids, t.ID), append(labels, t.Name())
	}
	began := a.Now()
	end := began.Add(timeout)
	if cursor != "" {
		ms, err := strconv.ParseInt(cursor, 10, 64)
		if err != nil || time.UnixMilli(ms).After(began.Add(names.WaitMax)) {
			return Waited{}, refusal.Of(refusal.InvalidArguments, "cursor", "the cursor of a wait", "another text")
		}
		end = time.UnixMilli(ms)
	}
	hold := a.Hop
	if c.Hold > 0 {
		hold = min(hold, c.Hold)
	}
	hop := began.Add(hold)
	mark := a.newMarker(ctx, c, labels)
	defer mark.clear()
	for {
		changed := make([]<-chan struct{}, len(ids))
		for i, tid := range ids {
			changed[i] = a.hub.watch(string(tid))
		}
		out, err := a.settled(ctx, c, ids)
		if err != nil || len(out.Settled) > 0 {
			return out, err
		}
		now := a.Now()
		if !now.Before(end) {
			out.TimedOut = true
			return out, nil
		}
		if !now.Before(hop) {
			out.Pending, out.Cursor = true, strconv.FormatInt(end.UnixMilli(), 10)
			out.Waiting = nil
			return out, nil
		}
		mark.show()
		if err := a.pause(ctx, min(recheck, end.Sub(now), hop.Sub(now)), changed); err != nil {
			return Waited{}, err
		}
	}
}

// WaitOperation waits for the end of an operation of the caller's own and gives
// the answer, or the refusal, its first call would have given (OT-048).
func (a *App) WaitOperation(ctx context.Context, c Call, opID string, timeout time.Duration, cursor string) (Waited, error) {
	if timeout <= 0 || timeout > names.WaitMax {
		timeout = names.WaitMax
	}
	hold := min(a.Hop, timeout)
	if c.Hold > 0 {
		hold = min(hold, c.Hold)
	}
	end := a.Now().Add(hold)
	for {
		c.Hold = max(end.Sub(a.Now()), time.Millisecond)
		p, err := a.Await(ctx, c, opID, cursor)
		if err != nil {
			return Waited{}, err
		}
		out := Waited{Settled: []Settled{}, Operation: opID, Phases: p.Phases, Cursor: p.Cursor, Pending: !p.Done}
		switch {
		case p.Done && p.Error != nil:
			return Waited{}, p.Error
		case p.Done && len(p.Result) > 0:
			return out, json.Unmarshal(p.Result, &out.Answer)
		case p.Done, !a.Now().Before(end), ctx.Err() != nil:
			return out, nil //nolint:nilerr // whoever stops waiting gets what is known so far
		}
		cursor = p.Cursor
	}
}

// pause waits for the first of a change, the timer and the caller's leaving.
func (a *App) pause(ctx context.Context, d time.Duration, changed []<-chan struct{}) error {
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(a.After(d))},
	}
	for _, ch := range changed {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ch)})
	}
	if i, _, _ := reflect.Select(cases); i == 0 {
		return ctx.Err()
	}
	return nil
}

// settled looks once.
func (a *App) settled(ctx context.Context, c Call, ids []id.Task) (Waited, error) {
	out := Waited{Settled: []Settled{}}
	for _, tid := range ids {
		t, ok, err := a.loadTask(ctx, c.Who.Tenant, tid)
		if err != nil {
			return out, err
		}
		if !ok {
			return out, refusal.Of(refusal.NotFound, "task", tid)
		}
		if !a.rests(t) {
			r, err := a.row(ctx, t.Tenant, liveOf(t))
			if err != nil {
				return out, err
			}
			r.Merge = MergeState(t.MidMerge)
			out.Waiting = append(out.Waiting, r)
			continue
		}
		s := Settled{
			TaskID: t.ID, Code: t.Code, Status: t.Status, Text: t.Status.Words(), Merge: MergeState(t.MidMerge),
			Blocking: t.Blocking, Final: FinalText(t.Final), Why: t.Why,
		}
		if t.Status == task.Complete {
			s.HeadSHA = t.Merge
		}
		out.Settled = append(out.Settled, s)
	}
	if len(out.Settled) > 0 {
		out.Waiting = nil
	}
	return out, nil
}

// rests reports whether nothing will change the task's status unless somebody
// asks for it. An interrupted task that is about to be resumed does not rest, but
// not for longer than a resume can take.
func (a *App) rests(t task.Task) bool {
	switch t.Status {
	case task.Working, task.Pairing, task.Merging, task.Zombie:
		return false
	case task.Interrupted:
		return !resumable(t) || a.Now().Sub(t.Updated) > resumeSoon
	default:
		return true
	}
}

// resumable reports whether an interrupted task may go on by itself: not when a
// person stopped it, not past the breaker (of turns, and of launches that came to
// nothing), not after two resumes in a row, and
// not in the middle of a merge that somebody has to see (CR-003, CR-009, CR-020).
func resumable(t task.Task) bool {
	return !t.Hold && t.Interruptions < names.Breaker && t.Launches < names.Breaker && t.Resumes < names.AutoResumes && len(t.MidMerge) == 0
}

// marker shows on the caller's run what it waits for. Nothing depends on it: a
// marker that cannot be written is left out (OB-033).
type marker struct {
	a      *App
	ctx    context.Context
	who    identity.Caller
	labels []string
	epoch  int64 // 0 until the first time it is shown
	next   time.Time
}

func (a *App) newMarker(ctx context.Context, c Call, labels []string) *marker {
	return &marker{a: a, ctx: context.WithoutCancel(ctx), who: c.Who, labels: labels}
}

// show puts the marker up, and later renews it.
func (m *marker) show() {
	now := m.a.Now()
	if m.who.Kind != identity.Task || now.Before(m.next) {
		return
	}
	m.next = now.Add(markAgain)
	first := m.epoch == 0
	if first {
		self, ok, err := m.a.loadTask(m.ctx, m.who.Tenant, m.who.Task())
		if err != nil || !ok || !self.Claimed || m.who.Epoch != 0 && m.who.Epoch != self.Epoch {
			return
		}
		m.epoch = self.Epoch
	}
	m.write(func(r *turn.Run) bool {
		if !now.Before(r.WaitUntil) { // left over by a process that died
			endWait(r, r.WaitUntil)
		}
		if first || len(r.Waiting) == 0 {
			if len(r.Waiting) == 0 {
				r.WaitSince = now
			}
			r.Waiting = append(r.Waiting, m.labels...)
		}
		r.WaitUntil = now.Add(markFor)
		return true
	})
}

// clear takes the marker down and books the time apart from the agent's own.
func (m *marker) clear() {
	if m.epoch == 0 {
		return
	}
	now := m.a.Now()
	m.write(func(r *turn.Run) bool {
		for _, l := range m.labels {
			for i, w := range r.Waiting {
				if w == l {
					r.Waiting = append(r.Waiting[:i:i], r.Waiting[i+1:]...)
					break
				}
			}
		}
		if len(r.Waiting) == 0 {
			endWait(r, now)
		}
		return true
	})
}

func endWait(r *turn.Run, at time.Time) {
	if !r.WaitSince.IsZero() && at.After(r.WaitSince) {
		r.Waited += at.Sub(r.WaitSince)
	}
	r.Waiting, r.WaitSince, r.WaitUntil = nil, time.Time{}, time.Time{}
}

func (m *marker) write(mark func(*turn.Run) bool) {
	self := task.Task{Tenant: m.who.Tenant, ID: m.who.Task()}
	err := m.a.driveRun(m.ctx, self, m.epoch, func(r *turn.Run) (change, bool, error) {
		return change{}, mark(r), nil
	})
	if err != nil {
		m.a.Log.WarnContext(m.ctx, "waiting marker lost", "task", m.who.Task().Short(), "error", err)
	}
}
