package gateway_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/gateway"
	"github.com/lazyplane/lazyplane/pkg/model"
)

// between serves a gateway in front of a service and returns both addresses.
func between(b *testing.B, service http.Handler) (direct, through string) {
	b.Helper()
	up := httptest.NewServer(service)
	b.Cleanup(up.Close)
	g := &gateway.Gateway{
		Access: model.Access{Wire: model.Anthropic, Upstream: up.URL, Scheme: model.APIKey, Credential: "mine", Secret: secret}, Key: key,
		Permit: func(context.Context) error { return nil }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, l) }()
	b.Cleanup(func() { cancel(); <-done })
	return up.URL, "http://" + l.Addr().String()
}

func open(b *testing.B, c *http.Client, at string) *http.Response {
	b.Helper()
	q, err := http.NewRequestWithContext(b.Context(), http.MethodPost, at+"/v1/messages", strings.NewReader("{}"))
	if err != nil {
		b.Fatal(err)
	}
	q.Header.Set("X-Api-Key", key)
	resp, err := c.Do(q)
	if err != nil {
		b.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("%s answered %s", at, resp.Status)
	}
	return resp
}

// BenchmarkOverheadOfACall is what a whole streamed call takes longer for going
// through the gateway, over loopback and with connections kept.
func BenchmarkOverheadOfACall(b *testing.B) {
	body := "data: " + strings.Join(anthropicAnswer, "\n\ndata: ") + "\n\n"
	direct, through := between(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}))
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	took := func(at string) time.Duration {
		began := time.Now()
		resp := open(b, c, at)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		return time.Since(began)
	}
	var without, with []time.Duration
	for b.Loop() {
		without, with = append(without, took(direct)), append(with, took(through))
	}
	b.ReportMetric(float64(median(with)-median(without))/float64(time.Microsecond), "us/call")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkOpenStreams is the memory that the gateway's side of one open stream
// holds: what a number of streams take through it, less what they take without.
func BenchmarkOpenStreams(b *testing.B) {
	const streams = 200
	var mu sync.Mutex
	var release chan struct{}
	direct, through := between(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		until := release
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"message_start\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-until:
		case <-r.Context().Done():
		}
	}))
	held := func(at string) float64 {
		mu.Lock()
		release = make(chan struct{})
		until := release
		mu.Unlock()
		c := &http.Client{Transport: &http.Transport{}}
		before := inUse()
		all := make([]*http.Response, 0, streams)
		for range streams {
			resp := open(b, c, at)
			if _, err := io.ReadFull(resp.Body, make([]byte, 8)); err != nil {
				b.Fatal(err)
			}
			all = append(all, resp)
		}
		after := inUse()
		close(until)
		for _, resp := range all {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		c.CloseIdleConnections()
		return (after - before) / streams
	}
	held(through) // what is made once is there
	var share []float64
	for b.Loop() {
		share = append(share, held(through)-held(direct))
	}
	slices.Sort(share)
	b.ReportMetric(share[len(share)/2]/1024, "KB/stream")
}

// inUse is the memory of live objects and of stacks.
func inUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
