package local

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// errStepTime is the cause of a step's cancelled context when its state's
// TimeoutSeconds have passed; errOver when the execution has ended meanwhile.
var (
	errStepTime = errors.New("local engine: the state's time is over")
	errOver     = errors.New("local engine: the execution has ended")
)

// advance takes x as far as it goes without waiting.
func (e *Engine) advance(ctx context.Context, x *execution) {
	x.mu.Lock()
	defer e.release(x)
	for !x.gone {
		if err := e.load(ctx, x); err != nil {
			if !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
				e.later(x, "an execution could not be read", err)
			}
			return
		}
		next, act := e.due(x)
		switch act {
		case idle:
			return
		case write:
			if e.save(context.WithoutCancel(ctx), x, next) != nil {
				return
			}
		case call:
			if !e.call(ctx, x) {
				return
			}
		}
	}
}

// release unlocks x and tells of its end.
func (e *Engine) release(x *execution) {
	tell, ended := x.tell, x.rec
	x.tell = false
	x.mu.Unlock()
	if tell && e.o.Closed != nil {
		e.o.Closed(ended.execution())
	}
}

type act int

const (
	idle act = iota
	write
	call
)

func (e *Engine) flow(x *execution) flow {
	return flow{m: x.m, now: e.o.Now(), token: func() string { return e.token(x.key) }}
}

// due decides what must happen to x at this moment, and arms its timer when
// nothing must. x.mu is held.
func (e *Engine) due(x *execution) (record, act) {
	f := e.flow(x)
	r, s := x.rec, x.m.States[x.rec.At]
	var limit time.Time
	if x.m.Timeout > 0 {
		limit = r.Started.Add(x.m.Timeout)
		if !f.now.Before(limit) {
			return f.end(r, engine.TimedOut, "", ""), write
		}
	}
	if x.busy {
		e.arm(x, limit)
		return r, idle
	}
	if r.Answer != nil {
		return f.answered(r, *r.Answer), write
	}
	if r.Wake.After(f.now) {
		e.arm(x, earliest(limit, r.Wake))
		return r, idle
	}
	switch {
	case s.Type == asl.Wait:
		return f.waited(r), write
	case s.Token && !f.now.Before(r.Deadline):
		return f.failed(r, asl.ErrTimeout, ""), write
	case !r.Submitted:
		return r, call
	case s.Heartbeat > 0 && !f.now.Before(x.beatBy):
		return f.failed(r, asl.ErrHeartbeat, ""), write
	}
	if s.Heartbeat > 0 {
		limit = earliest(limit, x.beatBy)
	}
	e.arm(x, earliest(limit, r.Deadline))
	return r, idle
}

// earliest returns the earlier of two times, of which the first may be zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// call runs the current Task's step and saves what it leads to. It reports
// whether there may be more to do. x.mu is held but for the call itself.
func (e *Engine) call(ctx context.Context, x *execution) bool {
	s := x.m.States[x.rec.At]
	payload, err := e.flow(x).payload(x.rec)
	if err != nil {
		return e.save(context.WithoutCancel(ctx), x, e.flow(x).failed(x.rec, asl.ErrRuntime, err.Error())) == nil
	}
	stepCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timed := stepCtx
	if s.Timeout > 0 {
		left := s.Timeout
		if s.Token {
			left = x.rec.Deadline.Sub(e.o.Now())
		}
		var stop context.CancelFunc
		timed, stop = context.WithTimeoutCause(stepCtx, left, errStepTime)
		defer stop()
	}
	x.busy, x.cancel = true, cancel
	if x.m.Timeout > 0 {
		e.arm(x, x.rec.Started.Add(x.m.Timeout))
	}
	x.mu.Unlock()
	out, err := e.step(timed, payload)
	x.mu.Lock()
	x.busy, x.cancel = false, nil
	if x.gone {
		return false
	}
	if !x.loaded || x.rec.Answer != nil {
		return true // the token was answered meanwhile, which decides
	}
	if err != nil && ctx.Err() != nil {
		return false // the process is ending: the step will be called again
	}
	return e.save(context.WithoutCancel(ctx), x, e.after(timed, x, s, out, err)) == nil
}

// after is the record that the outcome of a step call leads to.
func (e *Engine) after(ctx context.Context, x *execution, s *asl.State, out []byte, err error) record {
	f := e.flow(x)
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errStepTime):
		return f.failed(x.rec, asl.ErrTimeout, "")
	case err != nil:
		e.o.Log.WarnContext(ctx, "step failed", "machine", x.rec.Machine, "execution", x.rec.Name,
			"state", x.rec.At, "step", s.Step, "attempt", x.rec.attempts(), "err", err)
		return f.failed(x.rec, engine.ErrorName(err), cause(err))
	case s.Token:
		r := x.rec
		r.Submitted = true
		if by := f.now.Add(s.Heartbeat); by.After(x.beatBy) {
			x.beatBy = by // it is later already when a restart gave time to adopt
		}
		return r
	default:
		return f.returned(x.rec, out)
	}
}

// step calls the step function; a panic is its failure and nobody else's.
func (e *Engine) step(ctx context.Context, payload []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			e.o.Log.ErrorContext(ctx, "step panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fault.Wrap(fault.Internal, fmt.Errorf("step panicked: %v", p), "internal error")
		}
	}()
	return e.o.Step(ctx, payload)
}

// load reads x from the store unless it is known. x.mu is held.
func (e *Engine) load(ctx context.Context, x *execution) error {
	if x.loaded {
		return nil
	}
	it, err := e.o.Store.Get(ctx, e.part.Key(openPrefix+x.key))
	if errors.Is(err, store.ErrNotFound) {
		e.lost(ctx, x)
		return err
	}
	if err != nil {
		return fmt.Errorf("read execution %s: %w", x.key, err)
	}
	r, err := decode(it)
	if err != nil {
		return err
	}
	m, err := e.definition(ctx, r)
	if err != nil {
		return err
	}
	x.rec, x.version, x.m, x.loaded = r, it.Int(store.AttrVersion), m, true
	x.beatBy = e.o.Now().Add(max(e.o.Adopt, m.States[r.At].Heartbeat))
	return nil
}

// lost forgets an execution whose open row is not there. If it was there, a save
// of unknown outcome has ended it, and Closed has not heard of it.
func (e *Engine) lost(ctx context.Context, x *execution) {
	if x.version > 0 {
		it, err := e.o.Store.Get(ctx, e.part.Key(donePrefix+x.key))
		if err == nil {
			if r, err := decode(it); err == nil {
				x.rec, x.tell = r, true
			}
		}
	}
	e.forget(x)
}

// definition returns the definition an execution began with, whatever the files
// say by now (SY-039).
func (e *Engine) definition(ctx context.Context, r record) (*asl.Machine, error) {
	e.mu.Lock()
	m := e.defs[r.Def]
	e.mu.Unlock()
	if m == nil {
		it, err := e.o.Store.Get(ctx, e.part.Key(defPrefix+r.Def))
		if errors.Is(err, store.ErrNotFound) {
			// Not wrapped: a missing definition is not a missing execution.
			return nil, fmt.Errorf("definition %s of %s is not in the store", r.Def, r.Machine)
		}
		if err != nil {
			return nil, fmt.Errorf("read definition %s of %s: %w", r.Def, r.Machine, err)
		}
		if m, err = asl.Load(r.Machine, it.Doc, nil); err != nil {
			return nil, err
		}
		e.mu.Lock()
		e.defs[r.Def] = m
		e.mu.Unlock()
	}
	if m.States[r.At] == nil {
		return nil, fmt.Errorf("execution %s of %s stands in %q, which its definition does not have", r.Name, r.Machine, r.At)
	}
	return m, nil
}

// save makes next durable, and only then true. x.mu is held. On an error nobody
// knows whether it was written, so x is read again before anything else happens.
func (e *Engine) save(ctx context.Context, x *execution, next record) error {
	ws, err := e.writes(x.key, next, x.version)
	if errors.Is(err, errTooLarge) {
		next = e.flow(x).end(next, engine.Failed, asl.ErrTooLarge, err.Error())
		ws, err = e.writes(x.key, next, x.version)
	}
	if err != nil {
		return err
	}
	e.crash("flow.transition.before")
	if err := e.o.Store.Transact(ctx, ws...); err != nil {
		x.loaded = false
		e.later(x, "a transition could not be saved", err)
		return fmt.Errorf("save execution %s: %w", x.key, err)
	}
	e.crash("flow.transition.after")
	x.rec, x.version, x.fails = next, x.version+1, 0
	if !next.open() {
		e.closed(x)
	}
	return nil
}

func (e *Engine) closed(x *execution) {
	x.tell = true
	e.forget(x)
}

// writes is the transaction that replaces version of an execution by next;
// version 0 is an execution that does not exist yet. The key of an open and of a
// closed execution are watched together, so a name is used once.
func (e *Engine) writes(key string, next record, version int64) ([]store.Write, error) {
	open, done := e.part.Key(openPrefix+key), e.part.Key(donePrefix+key)
	to, other := open, done
	if !next.open() {
		to, other = done, open
	}
	it, err := next.item(to, version+1)
	if err != nil {
		return nil, err
	}
	put := store.Write{Act: store.Put, Item: it, If: []store.Cond{store.Absent()}}
	switch {
	case version == 0:
		return []store.Write{put, {Act: store.Check, Item: store.Item{Key: other}, If: []store.Cond{store.Absent()}}}, nil
	case next.open():
		put.If = []store.Cond{store.VersionIs(version)}
		return []store.Write{put}, nil
	default:
		return []store.Write{put, {Act: store.Delete, Item: store.Item{Key: open}, If: []store.Cond{store.VersionIs(version)}}}, nil
	}
}

// later has x looked at again after a pause that grows with each failure.
func (e *Engine) later(x *execution, message string, err error) {
	pause := min(100*time.Millisecond<<min(x.fails, 10), 30*time.Second)
	x.fails++
	e.o.Log.Error(message, "execution", x.key, "again_in", pause, "err", err)
	e.arm(x, e.o.Now().Add(pause))
}

func (e *Engine) crash(point string) {
	if e.o.CrashPoint != nil {
		e.o.CrashPoint(point)
	}
}
