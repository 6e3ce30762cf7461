package login_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/login"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// inside answers requests without a network, so that a bubble's clock can pass
// while one waits.
type inside func(*http.Request) (int, any, error)

func (f inside) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body, err := f(r)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func word(code string) map[string]string { return map[string]string{"error": code} }

var server = login.Server{
	Issuer: "https://lazy.example", Token: "https://lazy.example/auth/token", Revoke: "https://lazy.example/auth/revoke", Device: "https://lazy.example/auth/device",
}

var quarter = login.Codes{Device: "d", User: "BCDF-GHJK", At: "https://lazy.example/activate", Expires: 900, Interval: 5}

// waiting waits for a sign-in and notes, in seconds, when it was asked about.
func waiting(t *testing.T, c login.Codes, answer func(at time.Duration, n int) (int, any, error)) (polls []int, got login.Tokens, err error) {
	t.Helper()
	began, n := time.Now(), 0
	hc := &http.Client{Transport: inside(func(*http.Request) (int, any, error) {
		at := time.Since(began)
		polls = append(polls, int(at/time.Second))
		n++
		return answer(at, n)
	})}
	got, err = server.Wait(t.Context(), hc, time.Now, c)
	return polls, got, err
}

func TestPollingGoesOnAsLongAsTheCodeIsValid(t *testing.T) {
	req.Covers(t, "B33")
	synctest.Test(t, func(t *testing.T) {
		polls, got, err := waiting(t, quarter, func(at time.Duration, _ int) (int, any, error) {
			if at >= 600*time.Second {
				return 200, map[string]string{"access_token": "a", "refresh_token": "r"}, nil
			}
			return 400, word("authorization_pending"), nil
		})
		if err != nil || got.Access != "a" || len(polls) != 120 || polls[119] != 600 {
			t.Errorf("approved after 600 s: %+v, %v; the last of %d polls at %d s", got, err, len(polls), polls[len(polls)-1])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, _, err := waiting(t, quarter, func(at time.Duration, _ int) (int, any, error) {
			if at >= 900*time.Second {
				return 400, word("expired_token"), nil
			}
			return 400, word("authorization_pending"), nil
		})
		if fault.Code(err) != string(refusal.LoginDeclined) || time.Since(began) != 900*time.Second {
			t.Errorf("nobody approved: %v after %s", err, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// A server that never says that it is over is not asked for ever.
		began := time.Now()
		_, _, err := waiting(t, quarter, func(time.Duration, int) (int, any, error) { return 400, word("authorization_pending"), nil })
		if fault.Code(err) != string(refusal.LoginDeclined) || time.Since(began) > 940*time.Second {
			t.Errorf("a server that never ends it: %v after %s", err, time.Since(began))
		}
	})
}

func TestEachSlowDownHoldsForAllLaterPolls(t *testing.T) {
	req.Covers(t, "B34")
	synctest.Test(t, func(t *testing.T) {
		said := []string{
			"authorization_pending", "slow_down", "authorization_pending", "authorization_pending", "slow_down", "authorization_pending", "authorization_pending", "access_denied",
		}
		polls, _, err := waiting(t, quarter, func(_ time.Duration, n int) (int, any, error) { return 400, word(said[n-1]), nil })
		if want := []int{5, 10, 20, 30, 40, 55, 70, 85}; !slices.Equal(polls, want) {
			t.Errorf("polled at %v s, want %v", polls, want)
		}
		if fault.Code(err) != string(refusal.LoginDeclined) {
			t.Errorf("declined: %v", err)
		}
	})
}

func TestAServerThatIsAwayForAWhileIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls, got, err := waiting(t, quarter, func(_ time.Duration, n int) (int, any, error) {
			switch n {
			case 1:
				return 0, nil, errors.New("no route to host")
			case 2:
				return 503, word("temporarily_unavailable"), nil
			case 3:
				return 429, word("temporarily_unavailable"), nil
			case 4:
				return 400, word("authorization_pending"), nil
			}
			return 200, map[string]string{"access_token": "a", "refresh_token": "r"}, nil
		})
		if want := []int{5, 15, 35, 75, 80}; err != nil || got.Access != "a" || !slices.Equal(polls, want) {
			t.Errorf("polled at %v s, want %v: %+v, %v", polls, want, got, err)
		}
	})
}

func TestOnlyTheServerOfTheAddressIsBelieved(t *testing.T) {
	doc := map[string]string{}
	hc := &http.Client{Transport: inside(func(*http.Request) (int, any, error) { return 200, doc, nil })}
	right := map[string]string{"issuer": server.Issuer, "token_endpoint": server.Token, "revocation_endpoint": server.Revoke, "device_authorization_endpoint": server.Device}
	doc = right
	if got, err := login.Discover(t.Context(), hc, server.Issuer); err != nil || got != server {
		t.Errorf("%+v, %v", got, err)
	}
	for name := range right {
		for _, evil := range []string{"https://evil.example/x", "https://lazy.example.evil.example/x", "http://lazy.example/x", "https://lazy.example@evil.example/"} {
			doc = maps.Clone(right)
			doc[name] = evil
			if _, err := login.Discover(t.Context(), hc, server.Issuer); fault.KindOf(err) != fault.Invalid {
				t.Errorf("%s is %s: %v", name, evil, err)
			}
		}
	}
	doc = map[string]string{}
	if _, err := login.Discover(t.Context(), hc, server.Issuer); fault.KindOf(err) != fault.Invalid {
		t.Errorf("no control plane: %v", err)
	}
	away := &http.Client{Transport: inside(func(*http.Request) (int, any, error) { return 0, nil, errors.New("no route") })}
	if _, err := login.Discover(t.Context(), away, server.Issuer); !isUnreachable(err) {
		t.Errorf("nobody there: %v", err)
	}
}

func isUnreachable(err error) bool {
	_, ok := errors.AsType[*client.UnreachableError](err)
	return ok
}

func TestAnAddressIsTakenAsItIsPrinted(t *testing.T) {
	for typed, want := range map[string]string{
		"https://lazy.example": "https://lazy.example", "https://lazy.example/": "https://lazy.example", "lazy.example": "https://lazy.example",
		" lazy.example ": "https://lazy.example", "http://127.0.0.1:8080": "http://127.0.0.1:8080",
		"": "", "http://lazy.example": "", "ftp://lazy.example": "", "https://lazy.example/prod": "", "https://u:p@lazy.example": "", "https://lazy.example?x": "", "https://": "",
	} {
		if got, err := login.Address(typed); got != want || (want == "") != (fault.KindOf(err) == fault.Invalid && err != nil) {
			t.Errorf("%q is %q, %v; want %q", typed, got, err, want)
		}
	}
}
