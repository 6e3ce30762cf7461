package sfn_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/sfn"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

const arn = "arn:aws:states:eu-central-1:123456789012:stateMachine:lazy-turn"

// service answers every call with one error of the real protocol, or success when
// there is none, and keeps what it was asked.
type service struct {
	code   string
	status int
	target string
	asked  map[string]any
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.target = r.Header.Get("X-Amz-Target")
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &s.asked)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	switch {
	case err != nil:
		w.WriteHeader(http.StatusTeapot)
	case s.code == "":
		_, err = io.WriteString(w, `{"status":"RUNNING"}`)
	default:
		w.WriteHeader(s.status)
		_, err = io.WriteString(w, `{"__type":"com.amazonaws.states#`+s.code+`","message":"m"}`)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
	}
}

func dial(t *testing.T, s *service) *sfn.Engine {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	e, err := sfn.New(awssfn.New(awssfn.Options{
		BaseEndpoint: aws.String(srv.URL),
		Region:       "eu-central-1",
		Credentials:  credentials.NewStaticCredentialsProvider("a", "b", ""),
		Retryer:      aws.NopRetryer{},
	}), map[string]string{"turn": arn})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestErrorsOfTheServiceBecomeThoseOfThePort(t *testing.T) {
	start := func(e *sfn.Engine) error { return e.Start(t.Context(), "turn", "u-1", []byte("{}")) }
	describe := func(e *sfn.Engine) error {
		_, err := e.Describe(t.Context(), "turn", "u-1")
		return err
	}
	stop := func(e *sfn.Engine) error { return e.Stop(t.Context(), "turn", "u-1", "why") }
	succeed := func(e *sfn.Engine) error { return e.Succeed(t.Context(), "t", []byte("{}")) }
	fail := func(e *sfn.Engine) error { return e.Fail(t.Context(), "t", "E", "c") }
	beat := func(e *sfn.Engine) error { return e.Beat(t.Context(), "t") }
	for _, c := range []struct {
		code   string
		status int
		call   func(*sfn.Engine) error
		want   error
		kind   fault.Kind
	}{
		{"ExecutionAlreadyExists", 400, start, engine.ErrNameUsed, ""},
		{"ExecutionDoesNotExist", 400, describe, engine.ErrNoExecution, ""},
		{"ExecutionDoesNotExist", 400, stop, engine.ErrNoExecution, ""},
		{"TaskTimedOut", 400, succeed, engine.ErrTokenGone, ""},
		{"TaskDoesNotExist", 400, fail, engine.ErrTokenGone, ""},
		{"InvalidToken", 400, beat, engine.ErrTokenGone, ""},
		{"InvalidExecutionInput", 400, start, nil, fault.Invalid},
		{"InvalidOutput", 400, succeed, nil, fault.Invalid},
		{"InvalidName", 400, start, nil, fault.Invalid},
		{"ThrottlingException", 400, start, nil, fault.Unavailable},
		{"ExecutionLimitExceeded", 400, start, nil, fault.Unavailable},
		{"InternalFailure", 500, beat, nil, fault.Unavailable},
		{"AccessDeniedException", 400, start, nil, fault.Unavailable},
		{"StateMachineDoesNotExist", 400, start, nil, fault.Unavailable},
		{"ExpiredTokenException", 400, succeed, nil, fault.Unavailable},
		{"ValidationException", 400, start, nil, fault.Internal},
	} {
		err := c.call(dial(t, &service{code: c.code, status: c.status}))
		switch {
		case c.want != nil && !errors.Is(err, c.want):
			t.Errorf("%s: got %v, want %v", c.code, err, c.want)
		case c.want == nil && fault.KindOf(err) != c.kind:
			t.Errorf("%s: got %q of %v, want %q", c.code, fault.KindOf(err), err, c.kind)
		}
	}
}

func TestAFailureIsCutToWhatTheServiceTakes(t *testing.T) {
	s := &service{}
	if err := dial(t, s).Fail(t.Context(), "t", strings.Repeat("e", 300), strings.Repeat("é", 20000)); err != nil {
		t.Fatal(err)
	}
	name, _ := s.asked["error"].(string)
	cause, _ := s.asked["cause"].(string)
	if len(name) != 256 || len(cause) != 32768 || strings.Trim(cause, "é") != "" {
		t.Errorf("sent a name of %d and a cause of %d bytes", len(name), len(cause))
	}
}

func TestAnExecutionIsNamedUnderItsMachine(t *testing.T) {
	s := &service{}
	e := dial(t, s)
	if _, err := e.Describe(t.Context(), "turn", "u-1"); err != nil {
		t.Fatal(err)
	}
	want := "arn:aws:states:eu-central-1:123456789012:execution:lazy-turn:u-1"
	if got := s.asked["executionArn"]; got != want {
		t.Errorf("asked for %v, want %s", got, want)
	}
	if err := e.Start(t.Context(), "other", "u-1", []byte("{}")); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an unknown flow gives %v", err)
	}
	if _, err := sfn.New(nil, map[string]string{"turn": "arn:aws:lambda:x"}); err == nil {
		t.Error("an ARN of something else is taken")
	}
}
