package local

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// executionName is the part of AWS's rule that this product uses.
var executionName = pattern.New(`^[A-Za-z0-9_.-]{1,80}$`)

func keyOf(machine, name string) string { return machine + "#" + name }

// Start begins an execution. When it returns nil the execution is durable and
// will be run, by this process or the next.
func (e *Engine) Start(ctx context.Context, machine, name string, input []byte) error {
	e.mu.Lock()
	m := e.machines[machine]
	e.mu.Unlock()
	if m == nil {
		return fault.New(fault.Invalid, "there is no flow called %q", machine)
	}
	if !executionName.MatchString(name) {
		return fault.New(fault.Invalid, "%q cannot name an execution", name)
	}
	data, err := unmarshal(input)
	if err != nil || len(input) > maxInput {
		return fault.Wrap(fault.Invalid, err, "an execution's input is JSON of at most %d bytes", maxInput)
	}
	for {
		x := e.lookup(keyOf(machine, name))
		x.mu.Lock()
		if x.gone {
			x.mu.Unlock()
			continue
		}
		err := e.start(ctx, x, m, name, input, data)
		e.release(x)
		return err
	}
}

// start runs with x.mu held.
func (e *Engine) start(ctx context.Context, x *execution, m *asl.Machine, name string, input []byte, data any) error {
	if x.loaded {
		return sameInput(x.rec, input)
	}
	x.m = m
	next := e.flow(x).begin(name, input, data)
	ws, err := e.writes(x.key, next, 0)
	if err != nil {
		return err
	}
	e.mu.Lock()
	known := e.stored[m.Digest]
	e.mu.Unlock()
	if !known {
		ws = append(ws, store.Write{Act: store.Put, Item: store.Item{
			Key:  e.part.Key(defPrefix + m.Digest),
			Attr: store.Attr{store.AttrType: "flowdef", "schema": int64(schema)},
			Doc:  m.Source,
		}})
	}
	e.crash("flow.transition.before")
	err = e.o.Store.Transact(ctx, ws...)
	if lost, ok := errors.AsType[*store.ConflictError](err); ok {
		return e.lostStart(ctx, x, input, lost)
	}
	if err != nil {
		e.later(x, "an execution may have been started", err)
		return fmt.Errorf("start execution %s: %w", x.key, err)
	}
	e.crash("flow.transition.after")
	x.rec, x.version, x.loaded = next, 1, true
	e.mu.Lock()
	e.stored[m.Digest] = true
	e.mu.Unlock()
	if !next.open() {
		e.closed(x)
		return nil
	}
	e.ready(x)
	return nil
}

// lostStart answers a start whose name exists in the store but not in memory.
func (e *Engine) lostStart(ctx context.Context, x *execution, input []byte, lost *store.ConflictError) error {
	err := e.load(ctx, x)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("start execution %s: %w (%w)", x.key, engine.ErrNameUsed, lost)
	}
	if err != nil {
		e.later(x, "an execution could not be read", err)
		return err
	}
	e.ready(x)
	return sameInput(x.rec, input)
}

func sameInput(r record, input []byte) error {
	if !bytes.Equal(canonical(r.Input), canonical(input)) {
		return fmt.Errorf("start execution %s of %s with another input: %w", r.Name, r.Machine, engine.ErrNameUsed)
	}
	return nil
}

func canonical(b []byte) []byte {
	v, err := unmarshal(b)
	if err != nil {
		return b
	}
	out, err := json.Marshal(v)
	if err != nil {
		return b
	}
	return out
}

// Describe reports where an execution stands, from the store.
func (e *Engine) Describe(ctx context.Context, machine, name string) (engine.Execution, error) {
	r, err := e.read(ctx, machine, name)
	if err != nil {
		return engine.Execution{}, err
	}
	return r.execution(), nil
}

// Visited lists the states the execution has entered, oldest first. The list is
// bounded; a very long execution loses its beginning. States passed on the way to
// one that works or waits appear together with it.
func (e *Engine) Visited(ctx context.Context, machine, name string) ([]string, error) {
	r, err := e.read(ctx, machine, name)
	return r.Visited, err
}

func (e *Engine) read(ctx context.Context, machine, name string) (record, error) {
	// A closed execution never opens again, so looking in this order finds it.
	for _, prefix := range []string{openPrefix, donePrefix} {
		it, err := e.o.Store.Get(ctx, e.part.Key(prefix+keyOf(machine, name)))
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return record{}, fmt.Errorf("read execution %s of %s: %w", name, machine, err)
		}
		return decode(it)
	}
	return record{}, fmt.Errorf("read execution %s of %s: %w", name, machine, engine.ErrNoExecution)
}

// Stop ends a running execution. A step that is running is told through its
// context, and what it returns changes nothing.
func (e *Engine) Stop(ctx context.Context, machine, name, cause string) error {
	err := e.with(ctx, keyOf(machine, name), func(x *execution) error {
		return e.save(ctx, x, e.flow(x).end(x.rec, engine.Aborted, "", cause))
	})
	if errors.Is(err, store.ErrNotFound) {
		_, err = e.read(ctx, machine, name)
	}
	return err
}

// with runs fn on an open execution, with its lock held. It answers
// store.ErrNotFound when there is no such execution or it is closed.
func (e *Engine) with(ctx context.Context, key string, fn func(*execution) error) error {
	for {
		x := e.lookup(key)
		x.mu.Lock()
		if x.gone {
			x.mu.Unlock()
			continue
		}
		fresh := !x.loaded
		err := e.load(ctx, x)
		if err == nil {
			if fresh {
				e.ready(x)
			}
			err = fn(x)
		}
		e.release(x)
		return err
	}
}

// A task token names its execution, so that it is found without an index and
// after a restart; the rest of it is secret and compared with the row.
const tokenPrefix = "lft1."

func (e *Engine) token(key string) string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(key)) + "." + e.o.NewToken()
}

func keyOfToken(token string) (string, bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return "", false
	}
	name, _, ok := strings.Cut(rest, ".")
	if !ok {
		return "", false
	}
	key, err := base64.RawURLEncoding.DecodeString(name)
	machine, execution, ok := strings.Cut(string(key), "#")
	return string(key), err == nil && ok && machine != "" && executionName.MatchString(execution)
}

// withToken runs fn on the execution whose current, unanswered token this is.
func (e *Engine) withToken(ctx context.Context, token string, fn func(*execution) error) error {
	key, ok := keyOfToken(token)
	if !ok {
		return engine.ErrTokenGone
	}
	err := e.with(ctx, key, func(x *execution) error {
		r := x.rec
		same := subtle.ConstantTimeCompare([]byte(r.Token), []byte(token)) == 1
		if !same || r.Answer != nil || !e.o.Now().Before(r.Deadline) {
			return engine.ErrTokenGone
		}
		return fn(x)
	})
	if errors.Is(err, store.ErrNotFound) {
		return engine.ErrTokenGone
	}
	return err
}

// Succeed answers a token with a result. The answer is durable on return.
func (e *Engine) Succeed(ctx context.Context, token string, output []byte) error {
	if _, err := unmarshal(output); err != nil || len(output) > asl.MaxData {
		return fault.Wrap(fault.Invalid, err, "the answer to a task token is JSON of at most %d bytes", asl.MaxData)
	}
	return e.answer(ctx, token, answer{Output: output})
}

// Fail answers a token with an error. The answer is durable on return.
func (e *Engine) Fail(ctx context.Context, token, errorName, cause string) error {
	return e.answer(ctx, token, answer{Error: errorName, Cause: cause})
}

// answer records an answer. While the step call that handed the token out is still
// running the answer only waits in the row: the next state must not begin before
// this one's step has returned.
func (e *Engine) answer(ctx context.Context, token string, a answer) error {
	return e.withToken(ctx, token, func(x *execution) error {
		next := x.rec
		if x.busy {
			next.Answer = &a
		} else {
			next = e.flow(x).answered(next, a)
		}
		if err := e.save(ctx, x, next); err != nil {
			return err
		}
		e.ready(x)
		return nil
	})
}

// Beat keeps a token's heartbeat alive. It writes nothing: after a restart every
// token gets Options.Adopt to beat again.
func (e *Engine) Beat(ctx context.Context, token string) error {
	return e.withToken(ctx, token, func(x *execution) error {
		if hb := x.m.States[x.rec.At].Heartbeat; hb > 0 {
			x.beatBy = e.o.Now().Add(hb)
		}
		return nil
	})
}
