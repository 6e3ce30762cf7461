package edge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// grace is how long work may go on past its hop before its context ends: enough
// to write down where it stands.
const grace = 3 * time.Second

// lastWord is what work whose context has ended gets to say so, before its
// exchange is answered without it.
const lastWord = 500 * time.Millisecond

// Authenticator says who presented a bearer token on a surface.
type Authenticator interface {
	Authenticate(ctx context.Context, bearer, surface string) (identity.Caller, error)
}

// Base is what every surface is given.
type Base struct {
	Log   *slog.Logger
	Now   func() time.Time
	NewID func() string // UUIDv7; names requests, operations and calls without a key
	Hop   time.Duration // longest a request is held; 0 means the local limit
	Beat  time.Duration // between heartbeats; 0 means names.Heartbeat
	// CrashPoint, when set, is called before and after an answer leaves.
	CrashPoint func(point string)
	// Address is how the world reaches the surface; zero where nothing has to be
	// found from it.
	Address Address
}

func (b Base) crash(point string) {
	if b.CrashPoint != nil {
		b.CrashPoint(point)
	}
}

// HopOr returns the hop limit.
func (b Base) HopOr() time.Duration {
	if b.Hop > 0 {
		return b.Hop
	}
	return names.HopLocal
}

// BeatOr returns the time between heartbeats.
func (b Base) BeatOr() time.Duration {
	if b.Beat > 0 {
		return b.Beat
	}
	return names.Heartbeat
}

// Exchange is one request and its one answer.
type Exchange struct {
	W       http.ResponseWriter
	R       *http.Request
	ID      string // of the request, also in the answer's header
	Surface string
	Who     identity.Caller // zero until authenticated

	base   Base
	began  time.Time
	attrs  []slog.Attr
	status int
	err    error
	frame  *envelope.Writer
}

// Serve runs one exchange and logs it: a constant message, no bodies, no tokens,
// no path. A panic becomes a 500 that says nothing but the request's id.
func (b Base) Serve(w http.ResponseWriter, r *http.Request, surface string, handle func(*Exchange)) {
	r = r.WithContext(telemetry.Begin(r.Context()))
	x := &Exchange{W: w, R: r, ID: b.NewID(), Surface: surface, base: b, began: b.Now()}
	telemetry.Note(r.Context(), telemetry.KeyRequest, x.ID)
	w.Header().Set(names.HeaderRequest, x.ID)
	defer x.log()
	defer func() {
		if v := recover(); v != nil {
			x.Fail(panicked(v))
		}
	}()
	handle(x)
}

// panicked is the error a panic becomes; its cause is for the log alone.
func panicked(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

// Safely runs f and returns a panic of it as an error.
func Safely[T any](f func() (T, error)) (out T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
	}()
	return f()
}

// Note adds an attribute to the exchange's log line.
func (x *Exchange) Note(key, value string) {
	if value != "" {
		x.attrs = append(x.attrs, slog.String(key, value))
	}
}

// Outcome records what the log line says, for answers written elsewhere.
func (x *Exchange) Outcome(status int, err error) { x.status, x.err = status, err }

func (x *Exchange) log() {
	attrs := append([]slog.Attr{
		slog.String("surface", x.Surface), slog.String("request", x.ID), slog.Int("status", x.status),
		slog.Duration("took", x.base.Now().Sub(x.began)),
	}, x.attrs...)
	if x.Who.Kind != "" {
		attrs = append(attrs, slog.String("caller", string(x.Who.Kind)), slog.String("tenant", x.Who.Tenant), slog.String("project", x.Who.Project))
		if t := x.Who.Task(); t != "" {
			attrs = append(attrs, slog.String("task", t.Short()))
		}
		if x.Who.Turn != "" {
			attrs = append(attrs, slog.String("turn", string(x.Who.Turn)))
		}
	}
	level := slog.LevelInfo
	if x.err != nil {
		attrs = append(attrs, slog.String("code", fault.Code(x.err)))
		if k := fault.KindOf(x.err); k == fault.Internal || k == fault.Unavailable {
			level = slog.LevelError
			attrs = append(attrs, slog.String("cause", x.err.Error()))
		}
	}
	x.base.Log.LogAttrs(context.WithoutCancel(x.R.Context()), level, "request", attrs...)
}

// Audience is who reads this exchange's errors.
func (x *Exchange) Audience() envelope.Audience { return envelope.To(x.Surface, x.Who.Kind) }

// Bearer returns the presented token, "" for none.
func Bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Authenticate fills in who is calling.
func (x *Exchange) Authenticate(a Authenticator) error {
	who, err := a.Authenticate(x.R.Context(), Bearer(x.R), x.Surface)
	if err != nil {
		return err
	}
	x.Who = who
	telemetry.Note(x.R.Context(), telemetry.KeyTenant, who.Tenant, telemetry.KeyProject, who.Project, telemetry.KeyTask, who.Task().Short())
	return nil
}

// Body reads the request's body, at most limit bytes of it (OT-049).
func (x *Exchange) Body(limit int64) ([]byte, error) {
	if n := x.R.ContentLength; n > limit {
		return nil, tooLarge(fmt.Sprintf("%d bytes", n), limit)
	}
	b, err := io.ReadAll(http.MaxBytesReader(x.W, x.R.Body, limit))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, tooLarge(fmt.Sprintf("more than %d bytes", limit), limit)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the request's body could not be read to its end")
	}
	return b, nil
}

func tooLarge(size string, limit int64) error {
	e := refusal.Of(refusal.BodyTooLarge, size).WithDetail("limit", limit)
	if limit < names.BodyMax {
		e.Public = fmt.Sprintf("This request is %s; the limit of this route is %d bytes.", size, limit)
	}
	return e.WithNext("Keep what is large in a file of the repository and name the file.")
}

// Fail answers err. Inside an open envelope it becomes the final line.
func (x *Exchange) Fail(err error) {
	x.err = err
	if fault.KindOf(err) == fault.Unauthenticated {
		x.Challenge()
	}
	x.answer(envelope.Refuse(err, x.Audience(), x.ID))
}

// Answer writes v as the reply.
func (x *Exchange) Answer(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		x.Fail(fmt.Errorf("encode the answer: %w", err))
		return
	}
	x.answer(envelope.Reply{Status: status, Body: body})
}

// what names the surface and the operation of an exchange.
func (x *Exchange) what() string {
	for _, a := range x.attrs {
		if a.Key == "command" || a.Key == "tool" {
			return x.Surface + "." + a.Value.String()
		}
	}
	return x.Surface
}

func (x *Exchange) answer(r envelope.Reply) {
	x.base.crash("reply." + x.what() + ".before")
	defer x.base.crash("reply." + x.what() + ".after")
	x.status = r.Status
	if x.frame != nil {
		// The peer may be gone; the work is done all the same (RP-006).
		_ = x.frame.Close(r)
		return
	}
	h := x.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	x.W.WriteHeader(r.Status)
	_, _ = x.W.Write(append(r.Body, '\n'))
}

// Reply answers with a reply made elsewhere. err is what the log says of it.
func (x *Exchange) Reply(r envelope.Reply, err error) {
	x.err = err
	x.answer(r)
}

// Detach returns a context for work that must go on when the client hangs up,
// and ends soon after its hop. It keeps what ctx carries.
func (x *Exchange) Detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return Detach(ctx, x.base.HopOr()+grace)
}

// Detach cuts work loose from the request that asked for it, for at most d. Where
// the process itself is given no longer than ctx says, so is the work.
func Detach(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	end, ok := ctx.Deadline()
	if !ok {
		return work, cancel
	}
	sooner, stop := context.WithDeadline(work, end)
	return sooner, func() { stop(); cancel() }
}

// Left is how much of a hold of d is left.
func (x *Exchange) Left(d time.Duration) time.Duration { return d - x.base.Now().Sub(x.began) }

// Run does work and answers with what it returns. It is called once everything
// that can be refused early has been. When the client asked for the envelope,
// its first line leaves before the work begins and a heartbeat follows until it
// ends; else the reply is plain. The work is cut loose from the request: a client
// that hangs up merely forgoes the answer (RP-002, RP-003, RP-006).
func (x *Exchange) Run(work func(ctx context.Context) (envelope.Reply, error)) {
	ctx, cancel := x.Detach(x.R.Context())
	defer cancel()
	if x.R.Header.Get(names.HeaderHeartbeat) == "" {
		x.settle(Safely(func() (envelope.Reply, error) { return work(ctx) }))
		return
	}
	h := x.W.Header()
	h.Set("Content-Type", envelope.ContentType)
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
	x.W.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(x.W)
	x.frame = envelope.NewWriter(x.W, func() { _ = rc.Flush() })
	_ = x.frame.Open()

	type result struct {
		reply envelope.Reply
		err   error
	}
	done := make(chan result, 1)
	go func() {
		reply, err := Safely(func() (envelope.Reply, error) { return work(ctx) })
		done <- result{reply, err}
	}()
	tick := time.NewTicker(x.base.BeatOr())
	defer tick.Stop()
	var last <-chan time.Time
	for over := ctx.Done(); ; {
		select {
		case r := <-done:
			x.settle(r.reply, r.err)
			return
		case <-tick.C:
			_ = x.frame.Beat()
		case <-over:
			over, last = nil, time.After(lastWord)
		case <-last:
			x.settle(envelope.Reply{}, ctx.Err())
			return
		}
	}
}

// settle answers with a reply. An error beside a reply that has a status is for
// the log: the reply already says it in the route's own form.
func (x *Exchange) settle(r envelope.Reply, err error) {
	if r.Status == 0 {
		x.Fail(Outlasted(err, x.W.Header().Get(names.HeaderOperation)))
		return
	}
	x.Reply(r, err)
}

// Outlasted explains work that was cut off at the end of its hop: its outcome is
// unknown, so the answer names the operation to ask about.
func Outlasted(err error, operation string) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := fault.Wrap(fault.Unavailable, err, "This request was cut off before its outcome was known; what it began may go on.")
	if operation != "" {
		e = e.WithDetail("operation_id", operation)
	}
	return e
}
