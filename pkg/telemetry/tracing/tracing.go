// Package tracing records spans of requests, steps and records with
// OpenTelemetry. All that is done for a turn has one trace, whose id is the turn's
// own, so that API, flows and supervisors meet in it without handing it on.
package tracing

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// flushMost bounds what handing spans over may add to a request.
const flushMost = 2 * time.Second

// Tracer makes spans. Without an exporter it makes none, and still says in each
// line of the log which trace it belongs to.
type Tracer struct {
	tracer trace.Tracer
	flush  func(context.Context) error
}

// Options say where spans go.
type Options struct {
	Exporter sdk.SpanExporter // nil for nowhere
	Service  string           // for example "lazyplane-rpc"
	Version  string
	Stage    string
}

// New returns a tracer.
func New(o Options) *Tracer {
	if o.Exporter == nil {
		return &Tracer{noop.NewTracerProvider().Tracer(""), func(context.Context) error { return nil }}
	}
	p := sdk.NewTracerProvider(
		sdk.WithBatcher(o.Exporter),
		sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", o.Service), attribute.String("service.version", o.Version),
			attribute.String("deployment.environment.name", o.Stage),
		)),
	)
	return &Tracer{p.Tracer("lazyplane"), p.ForceFlush}
}

// Flush hands over what is there. A function calls it before it answers, for
// afterwards it may be frozen; a collector that does not take it is nobody's
// failure.
func (t *Tracer) Flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushMost)
	defer cancel()
	_ = t.flush(ctx)
}

// ofTurn makes the turn's trace the parent of what begins in ctx.
func ofTurn(ctx context.Context, turn id.Turn) context.Context {
	h := http.Header{}
	h.Set(names.HeaderTrace, turn.Trace())
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
}

func (t *Tracer) begin(ctx context.Context, name string, kind trace.SpanKind, as ...attribute.KeyValue) (context.Context, trace.Span) {
	ctx = telemetry.Begin(ctx)
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(as...))
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		telemetry.Note(ctx, telemetry.KeyTrace, sc.TraceID().String(), telemetry.KeySpan, sc.SpanID().String())
	}
	return ctx, span
}

func failed(span trace.Span, err error) {
	if err == nil {
		return
	}
	// The code alone: a cause may quote what somebody sent.
	span.SetStatus(codes.Error, fault.Code(err))
	span.SetAttributes(attribute.String("error.type", fault.Code(err)))
}

// HTTP traces the requests of a surface. The span has neither path nor query, for
// both may hold names that people gave.
func (t *Tracer) HTTP(surface string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.begin(ctx, surface, trace.SpanKindServer, attribute.String("http.request.method", known(r.Method)))
		defer t.Flush(ctx)
		defer span.End()
		telemetry.Note(ctx, telemetry.KeyTurn, uuid(r.Header.Get(names.HeaderTurn)))
		s := &status{ResponseWriter: w}
		next.ServeHTTP(s, r.WithContext(ctx))
		span.SetAttributes(attribute.Int("http.response.status_code", s.code))
		if s.code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(s.code))
		}
		if began := id.Turn(w.Header().Get(names.HeaderOperation)); began.Trace() != "" {
			span.AddLink(trace.LinkFromContext(ofTurn(context.Background(), began)))
		}
	})
}

func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut, http.MethodHead, http.MethodOptions:
		return method
	}
	return "_OTHER"
}

// uuid lets through what is one: a header's text is its sender's.
func uuid(s string) string {
	if id.Turn(s).Trace() == "" {
		return ""
	}
	return s
}

// status remembers how a request was answered.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Write(b []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (s *status) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController reach what is behind.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Step traces the steps of flows, each in the trace of its turn.
func (t *Tracer) Step(next func(context.Context, []byte) ([]byte, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		var p struct {
			Step   string  `json:"step"`
			Tenant string  `json:"tenant"`
			Turn   id.Turn `json:"turn"`
		}
		_ = json.Unmarshal(payload, &p) // next says what is wrong with it
		ctx, span := t.begin(ofTurn(ctx, p.Turn), "step", trace.SpanKindConsumer,
			attribute.String("lazyplane.step", telemetry.Scrub(p.Step)), attribute.String("lazyplane.tenant", telemetry.Scrub(p.Tenant)))
		defer t.Flush(ctx)
		defer span.End()
		telemetry.Note(ctx, telemetry.KeyTenant, p.Tenant, telemetry.KeyTurn, uuid(string(p.Turn)))
		out, err := next(ctx, payload)
		failed(span, err)
		return out, err
	}
}

// Batch traces the serving of a batch of records.
func (t *Tracer) Batch(ctx context.Context, next func(context.Context) (any, error)) (any, error) {
	ctx, span := t.begin(ctx, "records", trace.SpanKindConsumer)
	defer t.Flush(ctx)
	defer span.End()
	out, err := next(ctx)
	failed(span, err)
	return out, err
}
