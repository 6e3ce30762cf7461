// Package wording sorts failures of agent CLIs by what they say: the last resort
// after what the model gateway saw and what the CLI named in its own events.
package wording

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// rule is wording of one class. The first that matches decides.
type rule struct {
	class turn.Class
	re    *pattern.Pattern
}

var soon = pattern.New(`(?i)resets? (in|at) |try again (in|at) |retry after|rate.?limit|too many requests|\b\d+ ?(s|sec|seconds|m|min|minutes|h|hours?)\b`)

// quota is a plan that is used up. Whether that passes soon is said beside it.
var quota = pattern.New(`(?i)(plan|monthly|usage|spend(ing)?|included) (quota|limit|usage)\b.{0,40}\b(reached|exceeded|spent|used up|hit)|hit your .{0,30}(limit|quota)|quota (exceeded|reached)|insufficient_quota|exceeded your current quota`)

// window is a usage window of hours, which opens again by itself (FC-009).
var window = pattern.New(`(?i)(5|five).?hour|session limit|usage limit reached\|\d+|claude.{0,20}usage limit reached|limit reached .{0,3} resets? `)

var date = pattern.New(`(?i)\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d{1,2}\b|\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b`)

var rules = []rule{
	{turn.FatalAuth, pattern.New(`(?i)invalid (x-)?api.?key|incorrect api key|invalid_api_key|api key (is )?(not valid|invalid|expired|revoked)|fix external api key|please run /login|not logged in|please (log|sign) in|authentication[_ ](error|failed)|oauth token (has )?(expired|been revoked)|unauthorized|credit balance is too low|billing_?(error|hard_limit)|organization has been disabled|token (has been )?revoked|spend(ing)? limit (reached|exceeded)`)},
	{turn.FatalConfig, pattern.New(`(?i)model_not_found|unknown model|model .{0,80}(does not exist|not found|is not supported)|issue with the selected model|invalid_request_error|prompt is too long|context_length_exceeded|content_?filter|provider.{0,30}not found`)},
	{turn.Unreachable, pattern.New(`(?i)ECONNREFUSED|connection refused|unable to connect to (the )?api|ConnectionRefused|no model may be called`)},
	{turn.Overload, pattern.New(`(?i)overloaded|over capacity|at capacity|rate.?limit|too many requests|\b(429|529)\b|server_is_overloaded|service unavailable|temporarily unavailable|server error mid-response|internal server error|\b50[0234]\b|api_error|resource_?exhausted`)},
	{turn.Network, pattern.New(`(?i)ECONNRESET|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|connection (reset|dropped|closed|error)|network error|stream disconnected|socket hang up|timed? ?out|TLS|certificate|fetch failed|terminated early`)},
}

// Class sorts a text; Unknown is never guessed to be fatal (FC-001).
func Class(s string) turn.Class {
	if window.MatchString(s) && !date.MatchString(s) {
		return turn.Overload
	}
	if quota.MatchString(s) {
		// In doubt it is retried: only a date, or no horizon at all, is final
		// (FC-008, FC-010).
		if date.MatchString(s) && !strings.Contains(strings.ToLower(s), "rate limit") || !soon.MatchString(s) {
			return turn.FatalAuth
		}
		return turn.Overload
	}
	for _, r := range rules {
		if r.re.MatchString(s) {
			return r.class
		}
	}
	return turn.Unknown
}

// OfStatus sorts the status of an HTTP answer; what no status decides is Unknown.
func OfStatus(status int, said string) turn.Class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return turn.FatalAuth
	case status == http.StatusTooManyRequests:
		if c := Class(said); c == turn.FatalAuth {
			return c // a quota that is spent is told with the same status
		}
		return turn.Overload
	case status == http.StatusRequestTimeout, status == http.StatusConflict:
		return turn.Network
	case status >= 400 && status < 500:
		if c := Class(said); c == turn.FatalAuth {
			return c
		}
		return turn.FatalConfig
	case status >= 500:
		return turn.Overload
	}
	return Class(said)
}

var inText = pattern.New(`(?i)\b(?:status(?: code)?:?|API Error:|rejected \()\s*(\d{3})\b`)

// Said is a failure with those words, or nil for no words.
func Said(words string) *turn.Failure {
	words = strings.TrimSpace(words)
	if words == "" {
		return nil
	}
	f := &turn.Failure{Reason: Short(words)}
	if m := inText.FindStringSubmatch(words); m != nil {
		n, _ := strconv.Atoi(m[1])
		f.Class = OfStatus(n, words)
	} else {
		f.Class = Class(words)
	}
	return f
}

// Short is one line of a reason.
func Short(s string) string {
	s, _ = text.Cut(text.Line(s), 300)
	s, _ = text.Escape(s)
	return s
}

// Classify sorts the end of a run of a CLI: what the gateway saw first, then what
// the CLI named, then its last words. A run that ended with code 0 ended normally,
// whatever went wrong on its way.
func Classify(e agent.End) *turn.Failure {
	if e.Code == 0 {
		return nil
	}
	if e.Model != nil {
		f := *e.Model
		return &f
	}
	if e.Said != nil && e.Said.Class != turn.Unknown {
		f := *e.Said
		return &f
	}
	reason := e.Reason
	if reason == "" {
		reason = runner.Reason(e.Code)
	}
	words := Tail(e.Tail)
	if e.Said != nil {
		words = e.Said.Reason
	}
	f := &turn.Failure{Class: turn.Unknown, Reason: reason}
	// A process that was killed says nothing about a model, whatever it said before.
	if e.Code > 0 && e.Code < 128 {
		if c := Class(words); c != turn.Unknown {
			f.Class = c
		}
	}
	if words != "" {
		f.Reason += ": " + Short(words)
	}
	return f
}

// Found returns the line in which a run that failed said something like that, in
// an event or beside them; "" when it did not.
func Found(p *pattern.Pattern, e agent.End) string {
	if e.Code == 0 || e.Model != nil {
		return ""
	}
	if e.Said != nil && p.MatchString(e.Said.Reason) {
		return Short(e.Said.Reason)
	}
	for l := range strings.Lines(e.Tail) {
		if p.MatchString(l) {
			return Short(strings.TrimSpace(l))
		}
	}
	return ""
}

var uuid = pattern.New(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// UUID reports whether a name has that form.
func UUID(s string) bool { return uuid.MatchString(s) }

// Tail is the last line of an output that is no event.
func Tail(s string) string {
	for _, l := range slices.Backward(strings.Split(strings.TrimSpace(s), "\n")) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "{") {
			return l
		}
	}
	return ""
}
