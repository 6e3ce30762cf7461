// Package feed is the edge for what the cloud tells the control plane: containers
// and flows that ended, new rows of the outbox, and the clock. Everything it
// hears only makes things fast; each record is dealt with apart, so that one that
// nobody can serve stands in no other's way, and it may come never, twice or in
// any order (P11).
package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// Cases are the use cases behind the records.
type Cases interface {
	Consume(ctx context.Context, k store.Key) error
	Sweep(ctx context.Context, limit int) (int, error)
	RunnerGone(ctx context.Context, tenant string, tid id.Task, epoch int64, rep runner.Report) error
	FlowEnded(ctx context.Context, tenant, opID string) error
	Operator
}

var _ Cases = (*app.App)(nil)

// Ending is a run that a container's end is about.
type Ending struct {
	Tenant string
	Task   id.Task
	Epoch  int64
	Report runner.Report
}

// Config is what the edge needs.
type Config struct {
	Cases Cases
	Log   *slog.Logger
	Now   func() time.Time
	// Container reads the detail of a container's change; false means that it is
	// none of ours, or has not ended.
	Container func(detail []byte) (Ending, bool, error)
	// Park keeps what cannot be understood for a person to look at; nil leaves that
	// to the queue, which gives up on it after some tries.
	Park func(ctx context.Context, body []byte, why string) error
	// Overdue ends containers that are older than a run may be, whatever became of
	// their rows (SY-047); nil where there are none. The clock asks for it.
	Overdue func(ctx context.Context) error
	// Check tries what an operator asks about; nil where there is nothing to try.
	Check func(ctx context.Context) []Checked
	// Rows is how many due rows of a shard one visit of the clock serves.
	Rows int
}

// The records as their senders write them.
type (
	batch struct {
		Records []record `json:"Records"`
	}
	record struct {
		Source    string `json:"eventSource"`
		MessageID string `json:"messageId"`
		Body      string `json:"body"`
		Name      string `json:"eventName"`
		Row       struct {
			Keys struct {
				PK struct{ S string } `json:"pk"`
				SK struct{ S string } `json:"sk"`
			} `json:"Keys"`
			// New is the row as it became: its mark, and what its event is told from.
			New struct {
				Follow struct {
					BOOL bool `json:"BOOL"`
				} `json:"follow"`
				Project struct{ S string } `json:"project"`
				Schema  struct{ N string } `json:"schema"`
				Doc     struct{ B []byte } `json:"doc"`
			} `json:"NewImage"`
			Sequence string `json:"SequenceNumber"`
		} `json:"dynamodb"`
	}
	news struct {
		Source string          `json:"source"`
		Type   string          `json:"detail-type"`
		Detail json.RawMessage `json:"detail"`
	}
)

// id is how a record's sender is told that it must come again.
func (r record) id() string {
	if r.Source == "aws:sqs" {
		return r.MessageID
	}
	return r.Row.Sequence
}

// Failure names a record that must come again.
type Failure struct {
	ID string `json:"itemIdentifier"`
}

// Answer is what a batch is answered with.
type Answer struct {
	Failures []Failure `json:"batchItemFailures"`
}

// margin is what is left of the function's time when no further record is begun.
const margin = 5 * time.Second

// errUnread means that a record's text cannot be understood, now or ever.
var errUnread = errors.New("feed: not readable")

// Handler returns the function. A batch is answered with an Answer; an event on
// its own, which only somebody with the right to invoke the function can send,
// with what it gave.
func Handler(c Config) func(ctx context.Context, in json.RawMessage) (any, error) {
	return func(ctx context.Context, in json.RawMessage) (any, error) {
		var b batch
		if err := json.Unmarshal(in, &b); err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the event is not readable")
		}
		if b.Records != nil {
			return c.batch(ctx, b.Records), nil
		}
		var e news
		if err := json.Unmarshal(in, &e); err != nil || e.Source == "" {
			return nil, fault.Wrap(fault.Invalid, errUnread, "the event says neither what it is nor who sent it")
		}
		return c.single(ctx, e)
	}
}

// IsCheck reports an event that asks what is not there, so is served although
// something is not.
func IsCheck(in json.RawMessage) bool {
	var e news
	return json.Unmarshal(in, &e) == nil && e.Source == OperatorSource && e.Type == CheckType
}

func (c Config) batch(ctx context.Context, all []record) Answer {
	out := Answer{Failures: []Failure{}}
	for _, r := range all {
		if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && end.Sub(c.Now()) < margin {
			out.Failures = append(out.Failures, Failure{r.id()}) // another invocation has the time for it
			continue
		}
		began, own := c.Now(), telemetry.Begin(ctx)
		err := safely(func() error { return c.record(own, r) })
		again := err != nil && !c.parked(own, r, err)
		if again {
			out.Failures = append(out.Failures, Failure{r.id()})
		}
		c.log(own, r, again, err, c.Now().Sub(began))
	}
	return out
}

func (c Config) log(ctx context.Context, r record, again bool, err error, took time.Duration) {
	attrs := []slog.Attr{
		slog.String("source", r.Source), slog.String("record", r.id()), slog.Bool("again", again), slog.Duration("took", took),
	}
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("code", fault.Code(err)), slog.String("cause", err.Error()))
	}
	c.Log.LogAttrs(ctx, level, "record", attrs...)
}

// parked puts aside a record that no repetition can help, and reports whether it
// is dealt with.
func (c Config) parked(ctx context.Context, r record, why error) bool {
	hopeless := errors.Is(why, errUnread) || fault.KindOf(why) == fault.Invalid
	if !hopeless || c.Park == nil || r.Source != "aws:sqs" {
		return r.Source != "aws:sqs" // an outbox row comes again by itself: it is due
	}
	if err := c.Park(ctx, []byte(r.Body), why.Error()); err != nil {
		c.Log.ErrorContext(ctx, "a record could not be parked", "record", r.id(), "error", err)
		return false
	}
	return true
}

func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

func (c Config) record(ctx context.Context, r record) error {
	switch r.Source {
	case "aws:sqs":
		var e news
		if err := json.Unmarshal([]byte(r.Body), &e); err != nil {
			return fmt.Errorf("%w: %w", errUnread, err)
		}
		return c.event(ctx, e)
	case "aws:dynamodb":
		k, ok := store.KeyOf(r.Row.Keys.PK.S, r.Row.Keys.SK.S)
		if !ok {
			return fmt.Errorf("%w: no row is called %q %q", errUnread, r.Row.Keys.PK.S, r.Row.Keys.SK.S)
		}
		asks := r.Name == "INSERT" && store.IsOutbox(k) || r.Name != "REMOVE" && r.Row.New.Follow.BOOL
		if !asks {
			return nil
		}
		telemetry.Note(ctx, telemetry.KeyTenant, store.TenantOf(k), telemetry.KeyTask, store.TaskOf(k).Short())
		return c.Cases.Consume(ctx, k)
	}
	return fmt.Errorf("%w: a record of source %q", errUnread, r.Source)
}

// event deals with what EventBridge says.
func (c Config) event(ctx context.Context, e news) error {
	switch e.Type {
	case "ECS Task State Change":
		end, ours, err := c.Container(e.Detail)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnread, err)
		}
		if !ours {
			return nil
		}
		telemetry.Note(ctx, telemetry.KeyTenant, end.Tenant, telemetry.KeyTask, end.Task.Short())
		return c.Cases.RunnerGone(ctx, end.Tenant, end.Task, end.Epoch, end.Report)
	case "Step Functions Execution Status Change":
		return c.flow(ctx, e.Detail)
	case "Scheduled Event":
		_, err := c.Cases.Sweep(ctx, c.Rows)
		if c.Overdue != nil {
			err = errors.Join(err, c.Overdue(ctx))
		}
		return err
	}
	if e.Source == "" {
		return fmt.Errorf("%w: an event without a source", errUnread)
	}
	return nil // news that nobody here waits for
}

func (c Config) flow(ctx context.Context, detail []byte) error {
	var d struct {
		Status string `json:"status"`
		Input  string `json:"input"`
	}
	if err := json.Unmarshal(detail, &d); err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	var in struct {
		V      int    `json:"v"`
		Tenant string `json:"tenant"`
		Turn   string `json:"turn"`
	}
	if err := json.Unmarshal([]byte(d.Input), &in); err != nil || in.V < 1 || in.Tenant == "" || in.Turn == "" {
		return fmt.Errorf("%w: the input of the flow", errUnread)
	}
	telemetry.Note(ctx, telemetry.KeyTenant, in.Tenant, telemetry.KeyTurn, in.Turn)
	if in.V > 1 { // a later deployment began it, which is under way or was taken back
		return fault.New(fault.Unavailable, "input version %d of a flow is not known to the code that is deployed", in.V)
	}
	if engine.State(d.Status) == engine.Running {
		return nil
	}
	return c.Cases.FlowEnded(ctx, in.Tenant, in.Turn)
}

// Checked is one thing that was tried.
type Checked struct {
	What    string   `json:"what"`
	OK      bool     `json:"ok"`
	Problem string   `json:"problem,omitempty"`
	Next    []string `json:"next,omitempty"`
}

// CheckOf says how a try came out, without its cause.
func CheckOf(what string, err error) Checked {
	c := Checked{What: what, OK: err == nil}
	if err != nil {
		f := fault.Of(err)
		c.Problem = f.Public
		for _, n := range f.Next {
			c.Next = append(c.Next, n.Text)
		}
	}
	return c
}
