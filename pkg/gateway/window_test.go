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
		f := tooMany(t, now, c.header, c.body)
		if f == nil || f.Class != turn.Overload || f.RetryAfter != c.after {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// tooMany is what is made of a refusal by a service that is asked too often.
func tooMany(t *testing.T, now time.Time, header map[string]string, body string) *turn.Failure {
	t.Helper()
	g := &gateway.Gateway{
		Access: model.Access{Wire: model.Anthropic, Upstream: "https://h", Credential: "mine", Secret: secret}, Key: key,
		Permit: func(context.Context) error { return nil }, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
			for k, v := range header {
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
	return g.Last()
}

// A delay comes as seconds, as milliseconds and as a moment of the service's own
// clock, and may be anything.
func TestTheDelayThatAServiceAsksForIsReadWithCare(t *testing.T) {
	req.Covers(t, "B47")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	const day = 24 * time.Hour
	for _, c := range []struct {
		name   string
		header map[string]string
		after  time.Duration
	}{
		{"seconds", map[string]string{"Retry-After": "17"}, 17 * time.Second},
		{"part of a second", map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		{"milliseconds go first", map[string]string{"Retry-After-Ms": "1500", "Retry-After": "9"}, 1500 * time.Millisecond},
		{"none", map[string]string{"Retry-After": ""}, 0},
		{"zero", map[string]string{"Retry-After": "0"}, 0},
		{"before now", map[string]string{"Retry-After": "-30"}, 0},
		{"more than a day", map[string]string{"Retry-After": "604800"}, day},
		{"more than a duration holds", map[string]string{"Retry-After": "99999999999999999999"}, day},
		{"more than a number holds", map[string]string{"Retry-After": "1e999"}, day},
		{"a unit, which seconds have none of", map[string]string{"Retry-After": "1m"}, 0},
		{"no number", map[string]string{"Retry-After": "NaN"}, 0},
		{"words", map[string]string{"Retry-After": "Infinity"}, 0},
		{"a moment", map[string]string{"Retry-After": at(90 * time.Second)}, 90 * time.Second},
		{"a moment that is over", map[string]string{"Retry-After": at(-time.Hour)}, 0},
		{"a moment far off", map[string]string{"Retry-After": at(90 * day)}, day},
		{"a moment, and our clock is three hours slow", map[string]string{"Retry-After": at(3*time.Hour + time.Minute), "Date": at(3 * time.Hour)}, time.Minute},
		{"a moment, and our clock is three hours fast", map[string]string{"Retry-After": at(time.Minute - 3*time.Hour), "Date": at(-3 * time.Hour)}, time.Minute},
		{"a moment, and a date that is none", map[string]string{"Retry-After": at(time.Minute), "Date": "today"}, time.Minute},
	} {
		if f := tooMany(t, now, c.header, "{}"); f == nil || f.Class != turn.Overload || f.RetryAfter != c.after {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}
