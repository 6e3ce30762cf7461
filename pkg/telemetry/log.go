package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// Options say where lines are read.
type Options struct {
	Level slog.Leveler // nil means info
	// Stage names the deployment in metrics. With it, a line that carries a metric
	// is one that CloudWatch counts; without, the metric is an attribute like others.
	Stage string
	// Function is the surface that writes, "" for all of them in one process.
	Function string
}

// New returns a logger that writes one JSON object a line.
func New(w io.Writer, o Options) *slog.Logger {
	lines := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: o.Level, ReplaceAttr: clean})
	log := slog.New(handler{next: lines, stage: o.Stage})
	if o.Function != "" {
		log = log.With("function", o.Function)
	}
	return log
}

// clean scrubs texts, and errors and other values by what they print.
func clean(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		if s := a.Value.String(); s != "" {
			a.Value = slog.StringValue(Scrub(s))
		}
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case *slog.Source, slog.Level, time.Time:
			// slog writes them itself.
		case error:
			a.Value = slog.StringValue(Scrub(v.Error()))
		case fmt.Stringer:
			a.Value = slog.StringValue(Scrub(v.String()))
		case []byte:
			a.Value = slog.StringValue(fmt.Sprintf("[%d bytes]", len(v)))
		case *metrics:
			// Written by this package alone.
		default:
			a.Value = slog.AnyValue(printed(v))
		}
	default: // numbers and times
	}
	return a
}

// printed keeps the shape of a value whose text is scrubbed.
func printed(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return Scrub(fmt.Sprintf("%+v", v))
	}
	if s := Scrub(string(raw)); s != string(raw) {
		if !json.Valid([]byte(s)) {
			return s
		}
		raw = []byte(s)
	}
	return json.RawMessage(raw)
}

// handler adds what the context knows, and makes metrics of the lines that have
// one.
type handler struct {
	next  slog.Handler
	stage string
}

func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h handler) WithAttrs(as []slog.Attr) slog.Handler {
	return handler{h.next.WithAttrs(as), h.stage}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.next.WithGroup(name), h.stage}
}

// Handle implements slog.Handler. What a line says itself wins over the context.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	said := map[string]bool{}
	metric, count := "", int64(1)
	r.Attrs(func(a slog.Attr) bool {
		said[a.Key] = true
		switch {
		case a.Key == names.AttrMetric:
			metric = a.Value.String()
		case a.Key == names.AttrCount && a.Value.Kind() == slog.KindInt64:
			count = a.Value.Int64()
		}
		return true
	})
	for _, k := range order {
		if v := Noted(ctx, k); v != "" && !said[k] {
			r.AddAttrs(slog.String(k, v))
		}
	}
	if metric != "" && h.stage != "" {
		r.AddAttrs(slog.Any("_aws", envelope(metric, r.Time)), slog.String("stage", h.stage), slog.Int64(metric, count))
	}
	return h.next.Handle(ctx, r)
}

// metrics is the embedded metric format: it tells CloudWatch which of a line's
// attributes is a metric, and which its dimension.
type metrics struct {
	Timestamp         int64       `json:"Timestamp"`
	CloudWatchMetrics []directive `json:"CloudWatchMetrics"`
}

type directive struct {
	Namespace  string     `json:"Namespace"`
	Dimensions [][]string `json:"Dimensions"`
	Metrics    []unit     `json:"Metrics"`
}

type unit struct {
	Name string `json:"Name"`
	Unit string `json:"Unit"`
}

func envelope(metric string, at time.Time) *metrics {
	return &metrics{at.UnixMilli(), []directive{{names.MetricNamespace, [][]string{{"stage"}}, []unit{{metric, "Count"}}}}}
}
