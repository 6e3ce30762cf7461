package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/bus"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// PublishConfig is what the function that tells of changes needs.
type PublishConfig struct {
	Bus bus.Bus
	Log *slog.Logger
	Now func() time.Time
	// Park keeps an event that can never be told, or a row that cannot be understood.
	Park func(ctx context.Context, body []byte, why string) error
}

// told is a record that an event was made of.
type told struct {
	record record
	moved  event.TaskMoved
}

// Publisher returns the function that publishes what the table's stream says. It
// reads nothing but the records: a history row is enough to tell its event from.
// What the bus does not take at the moment is asked for again, what it never will
// is put aside; neither keeps a neighbour from being told.
func Publisher(c PublishConfig) func(ctx context.Context, in json.RawMessage) (any, error) {
	return func(ctx context.Context, in json.RawMessage) (any, error) {
		var b batch
		if err := json.Unmarshal(in, &b); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the event is not readable")
		}
		return c.batch(ctx, b.Records), nil
	}
}

func (c PublishConfig) batch(ctx context.Context, all []record) Answer {
	out := Answer{Failures: []Failure{}}
	again := func(r record, ok bool) {
		if !ok {
			out.Failures = append(out.Failures, Failure{r.id()})
		}
	}
	var ready []told
	var events []event.Event
	for _, r := range all {
		if r.Name != "INSERT" {
			continue // a history row is never changed, and may be collected
		}
		m, ok, err := moved(r)
		if err != nil && fault.Retryable(err) { // written by a version that is still to be deployed here
			c.log(ctx, told{record: r}, err, 0)
			again(r, false)
			continue
		}
		if err != nil {
			key, _ := json.Marshal(r.Row.Keys) // texts
			again(r, c.aside(ctx, r, told{record: r}, key, err))
			continue
		}
		if ok {
			ready, events = append(ready, told{r, m}), append(events, m.Event())
		}
	}
	if len(events) == 0 {
		return out
	}
	began := c.Now()
	failed := c.Bus.Publish(ctx, events...)
	for i, t := range ready {
		err := bus.NotTaken(failed, i)
		if err != nil && fault.KindOf(err) == fault.Invalid {
			again(t.record, c.aside(ctx, t.record, t, events[i].Detail, err))
			continue
		}
		c.log(ctx, t, err, c.Now().Sub(began))
		again(t.record, err == nil)
	}
	return out
}

// moved words the event of a record; ok is false for a row that is none's.
func moved(r record) (m event.TaskMoved, ok bool, err error) {
	k, ok := store.KeyOf(r.Row.Keys.PK.S, r.Row.Keys.SK.S)
	if !ok {
		return m, false, fmt.Errorf("%w: no row is called %q %q", errUnread, r.Row.Keys.PK.S, r.Row.Keys.SK.S)
	}
	doc, err := store.Unpack(r.Row.New.Doc.B)
	if err != nil {
		return m, false, fmt.Errorf("%w: %w", errUnread, err)
	}
	schema, err := strconv.ParseInt(r.Row.New.Schema.N, 10, 64)
	if err != nil {
		return m, false, fmt.Errorf("%w: the number of its form: %w", errUnread, err)
	}
	m, ok, err = app.MovedOf(store.Item{Key: k, Doc: doc, Attr: store.Attr{store.AttrProject: r.Row.New.Project.S, "schema": schema}})
	if err != nil && fault.KindOf(err) != fault.Unavailable {
		err = fmt.Errorf("%w: %w", errUnread, err)
	}
	return m, ok, err
}

// aside parks what no repetition can help, and reports whether it is dealt with.
func (c PublishConfig) aside(ctx context.Context, r record, t told, body []byte, why error) bool {
	c.log(ctx, t, why, 0)
	if c.Park == nil {
		return true // the log is all there is
	}
	if err := c.Park(ctx, body, why.Error()); err != nil {
		c.Log.ErrorContext(ctx, "a record could not be parked", "record", r.id(), "error", err)
		return false
	}
	return true
}

func (c PublishConfig) log(ctx context.Context, t told, err error, took time.Duration) {
	attrs := []slog.Attr{
		slog.String("source", t.record.Source), slog.String("record", t.record.id()), slog.Duration("took", took),
	}
	if t.moved.ID != "" {
		attrs = append(attrs, slog.String("event", t.moved.ID), slog.String(telemetry.KeyTenant, t.moved.Tenant),
			slog.String(telemetry.KeyProject, t.moved.Project), slog.String(telemetry.KeyTask, t.moved.Task.Short()),
			slog.String(telemetry.KeyTurn, t.moved.Turn), slog.Int64("version", t.moved.Version))
	}
	if err == nil {
		c.Log.LogAttrs(ctx, slog.LevelInfo, "published", attrs...)
		return
	}
	attrs = append(attrs, slog.String("code", fault.Code(err)), slog.String("cause", err.Error()))
	c.Log.LogAttrs(ctx, slog.LevelError, "not published", attrs...)
}
