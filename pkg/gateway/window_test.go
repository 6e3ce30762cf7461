package gateway_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/gateway"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestASpentWindowIsWaitedForToItsEnd(t *testing.T) {
	req.Covers(t, "FC-009")
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		header map[string]string
		body   string
		after  time.Duration
	}{
		"a spent window": {map[string]string{"Anthropic-Ratelimit-Unified-Status": "rejected", "Anthropic-Ratelimit-Unified-Reset": "1700007200"}, `{}`, 2 * time.Hour},
		"one that is not spent": {
			map[string]string{"Anthropic-Ratelimit-Unified-Status": "allowed", "Anthropic-Ratelimit-Unified-Reset": "1700007200"}, `{}`, 0,
		},
		"one that has begun anew": {
			map[string]string{"Anthropic-Ratelimit-Unified-Status": "rejected", "Anthropic-Ratelimit-Unified-Reset": "1600000000"}, `{}`, 0,
		},
		"an end that is no time": {map[string]string{"Anthropic-Ratelimit-Unified-Status": "rejected", "Anthropic-Ratelimit-Unified-Reset": "soon"}, `{}`, 0},
		"a delay asked for": {
			map[string]string{"Retry-After": "9", "Anthropic-Ratelimit-Unified-Status": "rejected", "Anthropic-Ratelimit-Unified-Reset": "1700007200"},
			`{}`, 9 * time.Second,
		},
		"an end in the body": {nil, `{"error":{"type":"usage_limit_reached","message":"limit","resets_in_seconds":5400}}`, 90 * time.Minute},
		"a far end":          {nil, `{"error":{"type":"usage_limit_reached","message":"limit","resets_in_seconds":1e300}}`, 24 * time.Hour},
		"junk in the body":   {nil, `{"error":{"type":"usage_limit_reached","message":"limit","resets_in_seconds":"soon"}}`, 0},
	} {
		g := &gateway.Gateway{
			Access: model.Access{Wire: model.Anthropic, Upstream: "https://h", Credential: "mine", Secret: secret}, Key: key,
			Permit: func(context.Context) error { return nil }, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
			Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}
				for k, v := range c.header {
					resp.Header.Set(k, v)
				}
				return resp, nil
			}),
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = g.Serve(ctx, closed{})
		q := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader("{}"))
		q.Header.Set("X-Api-Key", key)
		g.ServeHTTP(httptest.NewRecorder(), q)
		if f := g.Last(); f == nil || f.Class != turn.Overload || f.RetryAfter != c.after {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
