package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// exporter hands spans to a collector as OTLP over HTTP in JSON. The official
// exporter brings gRPC and protobuf with it, which every cold start of a function
// would pay for.
type exporter struct {
	http *http.Client
	url  string
}

var _ sdk.SpanExporter = (*exporter)(nil)

// OTLP returns an exporter to the collector at an address such as
// https://collector.example.com:4318, nil for "".
func OTLP(endpoint string, c *http.Client) sdk.SpanExporter {
	if endpoint == "" {
		return nil
	}
	return &exporter{http: c, url: strings.TrimRight(endpoint, "/") + "/v1/traces"}
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(context.Context) error { return nil }

// The parts of an ExportTraceServiceRequest that are used.
type (
	exported struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	attributes struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string     `json:"traceId"`
		SpanID     string     `json:"spanId"`
		ParentID   string     `json:"parentSpanId,omitempty"`
		Name       string     `json:"name"`
		Kind       int        `json:"kind"`
		Start      string     `json:"startTimeUnixNano"`
		End        string     `json:"endTimeUnixNano"`
		Attributes []keyValue `json:"attributes,omitempty"`
		Links      []link     `json:"links,omitempty"`
		Status     outcome    `json:"status"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	outcome struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
)

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func pairs(as []attribute.KeyValue) []keyValue {
	var out []keyValue
	for _, a := range as {
		v := value{}
		if a.Value.Type() == attribute.INT64 {
			n := strconv.FormatInt(a.Value.AsInt64(), 10)
			v.Int = &n
		} else {
			s := telemetry.Scrub(a.Value.String())
			v.String = &s
		}
		out = append(out, keyValue{string(a.Key), v})
	}
	return out
}

// ExportSpans implements sdk.SpanExporter. The spans of one tracer share one
// resource.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	out := scopeSpans{Scope: scope{"lazyplane"}}
	for _, s := range spans {
		x := span{
			TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(), Name: telemetry.Scrub(s.Name()),
			Kind: int(s.SpanKind()), Start: nanos(s.StartTime()), End: nanos(s.EndTime()), Attributes: pairs(s.Attributes()),
		}
		if s.Parent().SpanID().IsValid() {
			x.ParentID = s.Parent().SpanID().String()
		}
		for _, l := range s.Links() {
			x.Links = append(x.Links, link{l.SpanContext.TraceID().String(), l.SpanContext.SpanID().String()})
		}
		switch s.Status().Code {
		case codes.Ok:
			x.Status.Code = 1
		case codes.Error:
			x.Status = outcome{2, telemetry.Scrub(s.Status().Description)}
		case codes.Unset:
		}
		out.Spans = append(out.Spans, x)
	}
	body, err := json.Marshal(exported{[]resourceSpans{{
		Resource: attributes{pairs(spans[0].Resource().Attributes())}, ScopeSpans: []scopeSpans{out},
	}}})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := e.http.Do(req)
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("send spans: the collector answers %d", res.StatusCode)
	}
	return nil
}
