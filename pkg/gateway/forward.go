package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// asked lists the request headers that reach a service, besides those that begin
// with one of askedPrefixes. What is not listed is dropped, credentials of the
// agent's own and what chooses an account among them.
func asked() []string {
	return []string{"Accept", "Accept-Language", "Content-Type", "Idempotency-Key", "Openai-Beta", "Originator", "Session_id", "Session-Id", "User-Agent", "X-App", "X-Client-Request-Id"}
}

func askedPrefixes() []string { return []string{"Anthropic-", "X-Stainless-"} }

// answered lists the response headers that reach the agent.
func answered() []string {
	return []string{"Content-Type", "Cache-Control", "Request-Id", "X-Request-Id", "Retry-After", "Retry-After-Ms", "X-Should-Retry", "Openai-Processing-Ms", "Openai-Model", "Openai-Version"}
}

// limits are the response headers that speak of a credential's limits.
func limits() []string { return []string{"Anthropic-Ratelimit-", "X-Ratelimit-"} }

// forward sends a permitted call and streams its answer.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, at string, c call) {
	began := g.Now()
	to := &url.URL{Scheme: g.up.Scheme, Host: g.up.Host, Path: g.up.Path + at, RawQuery: r.URL.RawQuery}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), http.MaxBytesReader(w, r.Body, bodyMost))
	if err != nil {
		refuse(w, g.Access.Wire, http.StatusBadRequest, "invalid_request_error", "lazy: this request cannot be sent")
		return
	}
	out.ContentLength = r.ContentLength
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	g.headers(out.Header, r.Header)
	resp, err := g.Transport.RoundTrip(out)
	if err != nil {
		g.unreached(w, r, err)
		return
	}
	defer resp.Body.Close()
	g.read(resp.Header)
	id := first(resp.Header, "Request-Id", "X-Request-Id")
	log := g.Log.With("call", at, "status", resp.StatusCode, "request_id", text.Line(cut(id)), "credential", g.Access.Credential)
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		// A service that moved is not followed, or it could name any host.
		g.note(&turn.Failure{Class: turn.Network, Reason: "the model service answered with a redirection, which is not followed"})
		log.Warn("model call was redirected and is refused")
		refuse(w, g.Access.Wire, http.StatusBadGateway, "api_error", "lazy: the model service answered with a redirection, which is not followed")
	case resp.StatusCode >= 400:
		f := g.refused(w, resp, id)
		if c.counted || f.Class == turn.FatalAuth {
			g.note(f)
		}
		log.Info("model call refused by its service", "class", string(f.Class))
	default:
		copyHeaders(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		m := newMeter(g.Access.Wire, resp.Header.Get("Content-Type"))
		err := stream(w, resp.Body, m)
		m.end()
		if !c.counted {
			return
		}
		g.charge(m.usage)
		g.note(m.verdict(r.Context(), err, id))
		log.Info("model call", "model", text.Line(cut(m.usage.Model)), "input", m.usage.Input, "output", m.usage.Output,
			"cache_read", m.usage.CacheRead, "cache_write", m.usage.CacheWrite, "took", g.Now().Sub(began))
	}
}

// headers are the ones of the agent that may pass, with the real credential.
func (g *Gateway) headers(out, in http.Header) {
	for k, v := range in {
		if slices.Contains(asked(), k) || slices.ContainsFunc(askedPrefixes(), func(p string) bool { return strings.HasPrefix(k, p) }) {
			out[k] = v
		}
	}
	out.Set("Accept-Encoding", "identity") // what is compressed cannot be counted
	if out.Get("User-Agent") == "" {
		out.Set("User-Agent", "lazyplane")
	}
	switch {
	case g.Access.Wire == model.Anthropic && g.Access.Scheme != model.Subscription:
		out.Set("X-Api-Key", g.Access.Secret)
	case g.Access.Wire == model.Anthropic:
		out.Set("Authorization", "Bearer "+g.Access.Secret)
		if !slices.ContainsFunc(out.Values("Anthropic-Beta"), func(v string) bool { return strings.Contains(v, subscriptionBeta) }) {
			out.Add("Anthropic-Beta", subscriptionBeta)
		}
	default:
		out.Set("Authorization", "Bearer "+g.Access.Secret)
	}
}

// subscriptionBeta is what the service wants to see beside a subscription's token.
const subscriptionBeta = "oauth-2025-04-20"

// read keeps the rate-limit headers as they were received (US-001).
func (g *Gateway) read(h http.Header) {
	got := map[string]string{}
	for k, v := range h {
		if len(got) < 40 && len(v) > 0 && slices.ContainsFunc(limits(), func(p string) bool { return strings.HasPrefix(k, p) }) {
			got[strings.ToLower(k)] = cut(v[0])
		}
	}
	if len(got) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading = &model.Reading{Credential: g.Access.Credential, At: g.Now(), Headers: got}
}

// unreached answers a call whose service did not.
func (g *Gateway) unreached(w http.ResponseWriter, r *http.Request, err error) {
	if _, big := errors.AsType[*http.MaxBytesError](err); big {
		refuse(w, g.Access.Wire, http.StatusRequestEntityTooLarge, "request_too_large", "lazy: a request may have 64 MB")
		return
	}
	if r.Context().Err() != nil {
		return // the agent hung up, or the turn is over
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	f := &turn.Failure{Class: turn.Network, Reason: fmt.Sprintf("the model service at %s cannot be reached: %s", g.up.Host, g.clean(err.Error()))}
	g.note(f)
	g.Log.Warn("model call was not answered", "err", f.Reason)
	refuse(w, g.Access.Wire, http.StatusBadGateway, "api_error", "lazy: "+f.Reason)
}

// refused passes an error of the service on and sorts it. What a service says of
// a credential it rejects may quote the credential, so that is said in our words.
func (g *Gateway) refused(w http.ResponseWriter, resp *http.Response, id string) *turn.Failure {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 256<<10))
	if err != nil {
		b = nil
	}
	e := errorOf(b)
	f := classify(resp.StatusCode, e)
	f.RetryAfter = retryAfter(resp.Header, g.Now())
	if f.RetryAfter == 0 && resp.StatusCode == http.StatusTooManyRequests {
		f.RetryAfter = windowEnd(resp.Header, e, g.Now())
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		e.message = "the model service rejected the stored credential"
		f.Reason = fmt.Sprintf("the model service rejected the credential %q (status %d)", g.Access.Credential, resp.StatusCode)
		b = nil
	} else {
		f.Reason = fmt.Sprintf("the model service answered %d", resp.StatusCode)
		if e.kind != "" || e.message != "" {
			f.Reason += ": " + strings.TrimSuffix(e.kind+": "+e.message, ": ")
		}
		f.Reason = g.clean(f.Reason)
	}
	if id != "" {
		f.Reason += " (request " + text.Line(cut(id)) + ")"
	}
	if len(b) == 0 || strings.Contains(string(b), g.Access.Secret) {
		for _, k := range []string{"Retry-After", "Retry-After-Ms", "Request-Id", "X-Request-Id", "X-Should-Retry"} {
			if v := resp.Header.Get(k); v != "" {
				w.Header().Set(k, v)
			}
		}
		kind := e.kind
		if kind == "" {
			kind = "api_error"
		}
		refuse(w, g.Access.Wire, resp.StatusCode, kind, "lazy: "+g.clean(e.message))
		return f
	}
	copyHeaders(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(b)
	return f
}

// clean makes a service's words fit for a record.
func (g *Gateway) clean(s string) string {
	if g.Access.Secret != "" {
		s = strings.ReplaceAll(s, g.Access.Secret, "[credential]")
	}
	s, _ = text.Cut(text.Line(s), 400)
	return s
}

func copyHeaders(to, from http.Header) {
	for k, v := range from {
		if slices.Contains(answered(), k) || slices.ContainsFunc(limits(), func(p string) bool { return strings.HasPrefix(k, p) }) {
			to[k] = v
		}
	}
}

// stream copies as it comes: a chunk is with the agent before the next is waited
// for, and nothing is kept but what the meter is still reading.
func stream(w http.ResponseWriter, from io.Reader, m *meter) error {
	flush := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			m.take(buf[:n])
			if _, werr := w.Write(buf[:n]); werr != nil {
				return errHungUp
			}
			if ferr := flush.Flush(); ferr != nil {
				return errHungUp
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errHungUp means that the agent ended a call, which is no failure of its model.
var errHungUp = errors.New("the agent hung up")

// windowEnd is the rest of the usage window that a plan has spent, which its
// service names in other places than Retry-After; 0 when it names none (FC-009).
func windowEnd(h http.Header, e said, now time.Time) time.Duration {
	if e.resets > 0 {
		return delay(e.resets)
	}
	if h.Get("Anthropic-Ratelimit-Unified-Status") != "rejected" {
		return 0
	}
	at, err := strconv.ParseInt(h.Get("Anthropic-Ratelimit-Unified-Reset"), 10, 64)
	if err != nil || at <= 0 {
		return 0
	}
	return delay(time.Unix(at, 0).Sub(clock(h, now)).Seconds())
}

// retryAfter is the delay a service asked for, at most a day; 0 when it named none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, ok := number(h.Get("Retry-After-Ms")); ok {
		return delay(ms / 1000)
	}
	v := h.Get("Retry-After")
	if s, ok := number(v); ok {
		return delay(s)
	}
	if at, err := http.ParseTime(v); err == nil {
		return delay(at.Sub(clock(h, now)).Seconds())
	}
	return 0
}

// clock is what the time is to the service. A moment that it names is one of its
// own clock, from which ours may be far.
func clock(h http.Header, ours time.Time) time.Time {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		return at
	}
	return ours
}

// delay bounds what a service asks for to a day.
func delay(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), (24*time.Hour).Seconds()) * float64(time.Second))
}

// number reads a header's number. One that is too large to be told is still a
// large one.
func number(v string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if math.IsNaN(f) || math.IsInf(f, 0) && err == nil {
		return 0, false // words, not digits
	}
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

// refuse answers in the wire's own form, so that a client understands it.
func refuse(w http.ResponseWriter, wire model.Wire, status int, kind, message string) {
	type detail struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	body := map[string]any{"error": detail{kind, message}}
	if wire == model.Anthropic {
		body["type"] = "error"
	}
	b, _ := json.Marshal(body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func first(h http.Header, names ...string) string {
	for _, n := range names {
		if v := h.Get(n); v != "" {
			return v
		}
	}
	return ""
}

func cut(s string) string {
	s, _ = text.Cut(s, 200)
	return s
}

// verdict is how a call that was answered with success really went.
func (m *meter) verdict(ctx context.Context, err error, id string) *turn.Failure {
	var f *turn.Failure
	switch {
	case m.failed != nil:
		f = classify(0, *m.failed)
		f.Reason = "the model service ended its answer: " + strings.TrimSuffix(m.failed.kind+": "+m.failed.message, ": ")
	case errors.Is(err, errHungUp), ctx.Err() != nil:
		return nil
	case err != nil:
		f = &turn.Failure{Class: turn.Network, Reason: "the model service's answer was cut off"}
	case m.sse && !m.done:
		f = &turn.Failure{Class: turn.Network, Reason: "the model service's answer ended before it was complete"}
	default:
		return nil
	}
	f.Reason, _ = text.Cut(text.Line(f.Reason), 400)
	if id != "" {
		f.Reason += " (request " + text.Line(cut(id)) + ")"
	}
	return f
}
