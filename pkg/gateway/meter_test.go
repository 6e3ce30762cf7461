package gateway_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/gateway"
	"github.com/lazyplane/lazyplane/pkg/model"
)

func FuzzAnyAnswerPassesUnchanged(f *testing.F) {
	f.Add([]byte("data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":-5}}}\n\ndata: {}\n"), true)
	f.Add([]byte(`{"usage":{"prompt_tokens":1e3}}`), false)
	f.Add([]byte("data: [1,2\n\r\n:\ndata:\n"), true)
	f.Fuzz(func(t *testing.T, body []byte, stream bool) {
		rec := httptest.NewRecorder()
		g := &gateway.Gateway{
			Access: model.Access{Wire: model.OpenAI, Upstream: "https://h", Credential: "mine", Secret: secret}, Key: key,
			Permit: func(context.Context) error { return nil }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Transport: answers(body, stream),
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = g.Serve(ctx, closed{})
		q := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"))
		q.Header.Set("Authorization", "Bearer "+key)
		g.ServeHTTP(rec, q)
		if !bytes.Equal(rec.Body.Bytes(), body) {
			t.Errorf("%q became %q", body, rec.Body)
		}
		for _, u := range g.Usage() {
			if u.Input < 0 || u.Output < 0 || u.CacheRead < 0 || u.Requests != 1 {
				t.Errorf("%+v", u)
			}
		}
	})
}

type closed struct{ net.Listener }

func (closed) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (closed) Close() error              { return nil }
func (closed) Addr() net.Addr            { return &net.TCPAddr{} }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answers(body []byte, stream bool) roundTrip {
	kind := "application/json"
	if stream {
		kind = "text/event-stream"
	}
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
	}
}

// BenchmarkACall prints what the gateway adds to one streamed call.
func BenchmarkACall(b *testing.B) {
	body := []byte("data: " + strings.Join(anthropicAnswer, "\n\ndata: ") + "\n\n" + strings.Repeat("data: {\"type\":\"content_block_delta\"}\n\n", 200))
	g := &gateway.Gateway{
		Access: model.Access{Wire: model.Anthropic, Upstream: "https://h", Credential: "mine", Secret: secret}, Key: key,
		Permit: func(context.Context) error { return nil }, Now: time.Now, Log: slog.New(slog.DiscardHandler), Transport: answers(body, true),
	}
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	_ = g.Serve(ctx, closed{})
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		q := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader("{}"))
		q.Header.Set("X-Api-Key", key)
		g.ServeHTTP(httptest.NewRecorder(), q)
	}
}
