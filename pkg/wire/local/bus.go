package local

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/lazyplane/lazyplane/pkg/bus/local"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// newBus is the bus of a laptop, with the log as its first listener.
func newBus(log *slog.Logger, after func(time.Duration) <-chan time.Time) *local.Bus {
	if after == nil {
		after = time.After
	}
	b := local.New(log, after)
	b.Listen("log", func(ctx context.Context, e event.Event) error { return logMove(ctx, log, e) }, event.TypeTaskMoved)
	return b
}

// Bus is where the plane tells what happened, to be listened to.
func (p *Plane) Bus() *local.Bus { return p.bus }

// moved publishes a change of a status.
func (p *Plane) moved(m event.TaskMoved) {
	if err := p.bus.Publish(context.Background(), m.Event()); err != nil && fault.KindOf(err) == fault.Invalid {
		p.log.Error("an event was not published", telemetry.KeyTask, m.Task.Short(), "error", err)
	}
}

// logMove leaves a line of a change, so that the log of a task tells its story.
func logMove(ctx context.Context, log *slog.Logger, e event.Event) error {
	var m event.TaskMoved
	if err := json.Unmarshal(e.Detail, &m); err != nil {
		return fault.Wrap(fault.Invalid, err, "the event is not readable")
	}
	log.InfoContext(ctx, "a task moved", telemetry.KeyTask, m.Task.Short(), telemetry.KeyTurn, m.Turn,
		"from", string(m.From), "to", string(m.To), "by", string(m.By), "version", m.Version)
	return nil
}
