package aws_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/bus"
	busaws "github.com/lazyplane/lazyplane/pkg/bus/aws"
	"github.com/lazyplane/lazyplane/pkg/bus/bustest"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

func at(t *testing.T, url string, opts ...func(*eventbridge.Options)) *busaws.Bus {
	t.Helper()
	api := eventbridge.NewFromConfig(moto.Config(url), opts...)
	return busaws.New(api, "events", func(time.Duration) <-chan time.Time {
		c := make(chan time.Time, 1)
		c <- time.Time{}
		return c
	})
}

// A listener is a rule whose target is a queue, as people make them.
func TestTheContract(t *testing.T) {
	url := moto.Start(t)
	api, queues := eventbridge.NewFromConfig(moto.Config(url)), sqs.NewFromConfig(moto.Config(url))
	n := 0
	bustest.Run(t, func(t *testing.T) bustest.Fixture {
		n++
		name := fmt.Sprintf("events-%d", n)
		if _, err := api.CreateEventBus(t.Context(), &eventbridge.CreateEventBusInput{Name: &name}); err != nil {
			t.Fatal(err)
		}
		return bustest.Fixture{
			Bus: busaws.New(api, name, time.After),
			Listen: func(t *testing.T, who string, kinds ...string) func() event.Event {
				return rule(t, api, queues, name, who, kinds)
			},
		}
	})
}

func rule(t *testing.T, api *eventbridge.Client, queues *sqs.Client, on, who string, kinds []string) func() event.Event {
	t.Helper()
	pattern := map[string][]string{"source": {event.Source}}
	if len(kinds) > 0 {
		pattern["detail-type"] = kinds
	}
	p, err := json.Marshal(pattern)
	if err != nil {
		t.Fatal(err)
	}
	q, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(on + "-" + who)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &who, EventBusName: &on, EventPattern: aws.String(string(p))})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: &who, EventBusName: &on, Targets: []types.Target{{
		Id: aws.String("queue"), Arn: aws.String("arn:aws:sqs:" + moto.Region + ":123456789012:" + on + "-" + who),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var have []event.Event
	return func() event.Event {
		for len(have) == 0 {
			out, err := queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl, MaxNumberOfMessages: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range out.Messages {
				have = append(have, read(t, *m.Body))
			}
		}
		e := have[0]
		have = have[1:]
		return e
	}
}

// read undoes what the service made of an event. It writes the detail anew.
func read(t *testing.T, body string) event.Event {
	t.Helper()
	var m struct {
		Type   string    `json:"detail-type"`
		Time   time.Time `json:"time"`
		Detail any       `json:"detail"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m.Detail); err != nil {
		t.Fatal(err)
	}
	return event.Event{Type: m.Type, At: m.Time, Detail: []byte(strings.TrimSpace(b.String()))}
}

// service answers as EventBridge does, by a script: for each request, the codes
// of its entries by their detail.
type service struct {
	mu    sync.Mutex
	calls [][]string                                  // guarded by mu; the details of each request
	say   func(call int, detail string) (code string) // "" takes the entry
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var in struct{ Entries []struct{ Detail string } }
	_ = json.Unmarshal(b, &in)
	s.mu.Lock()
	defer s.mu.Unlock()
	type entry struct{ EventId, ErrorCode, ErrorMessage string }
	out := struct {
		FailedEntryCount int
		Entries          []entry
	}{}
	var all []string
	for _, e := range in.Entries {
		all = append(all, e.Detail)
		code := s.say(len(s.calls), e.Detail)
		if code == "" {
			out.Entries = append(out.Entries, entry{EventId: "x"})
			continue
		}
		out.FailedEntryCount++
		out.Entries = append(out.Entries, entry{ErrorCode: code, ErrorMessage: "no"})
	}
	s.calls = append(s.calls, all)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	_ = json.NewEncoder(w).Encode(out)
}

func (s *service) seen() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func detail(n int) event.Event {
	return event.Event{Type: "Task Moved", Detail: fmt.Appendf(nil, `{"n":%d}`, n)}
}

func TestAnEntryThatFailedIsSentAgainAlone(t *testing.T) {
	s := &service{say: func(call int, d string) string {
		switch {
		case d == `{"n":1}` && call == 0:
			return "ThrottlingException"
		case d == `{"n":2}`:
			return "NotAuthorizedForSourceException"
		case d == `{"n":3}`:
			return "InternalFailure"
		}
		return ""
	}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	err := at(t, srv.URL).Publish(t.Context(), detail(0), detail(1), detail(2), detail(3), detail(4))
	want := [][]string{
		{`{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`}, {`{"n":1}`, `{"n":3}`}, {`{"n":3}`},
	}
	if got := s.seen(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the requests are %v, want %v", got, want)
	}
	for i, kind := range []fault.Kind{"", "", fault.Invalid, fault.Unavailable, ""} {
		why := bus.NotTaken(err, i)
		if (why == nil) != (kind == "") || why != nil && fault.KindOf(why) != kind {
			t.Errorf("event %d: %v, want %q", i, why, kind)
		}
	}
}

func TestARequestHoldsNoMoreThanTheServiceTakes(t *testing.T) {
	s := &service{say: func(int, string) string { return "" }}
	srv := httptest.NewServer(s)
	defer srv.Close()
	var all []event.Event
	for n := range 12 {
		all = append(all, detail(n))
	}
	long := event.Event{Type: "Task Moved", Detail: []byte(`{"x":"` + strings.Repeat("x", bus.MaxEntry/2) + `"}`)}
	all = append(all, long, long)
	tooLong := event.Event{Type: "Task Moved", Detail: []byte(`{"x":"` + strings.Repeat("x", bus.MaxEntry) + `"}`)}
	if err := at(t, srv.URL).Publish(t.Context(), append(all, tooLong)...); bus.NotTaken(err, 14) == nil || bus.NotTaken(err, 13) != nil {
		t.Errorf("it says %v", err)
	}
	sent := 0
	for _, c := range s.seen() {
		bytes := 0
		for _, d := range c {
			bytes += len(d)
		}
		if len(c) > 10 || bytes > bus.MaxEntry {
			t.Errorf("a request has %d entries of %d bytes", len(c), bytes)
		}
		sent += len(c)
	}
	if sent != len(all) {
		t.Errorf("%d entries were sent, want %d", sent, len(all))
	}
}

func TestWhatMayPassIsTypedSoAndSaysWhatToMend(t *testing.T) {
	for _, c := range []struct {
		code string
		kind fault.Kind
		says string
		next bool
	}{
		{"ThrottlingException", fault.Unavailable, "at the moment", false},
		{"ResourceNotFoundException", fault.Unavailable, "the event bus is not there", true},
		{"AccessDeniedException", fault.Unavailable, "may not use the event bus", true},
		{"ExpiredTokenException", fault.Unavailable, "credentials for the event bus", true},
		{"ValidationException", fault.Internal, "internal", false},
	} {
		code, want := c.code, c.kind
		calls := make(chan struct{}, 10)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls <- struct{}{}
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"%s","message":"m"}`, code)
		}))
		err := at(t, srv.URL, func(o *eventbridge.Options) { o.Retryer = aws.NopRetryer{} }).Publish(t.Context(), detail(0), detail(1))
		for i := range 2 {
			why := bus.NotTaken(err, i)
			said := fault.Of(why)
			if fault.KindOf(why) != want || !strings.Contains(said.Public, c.says) || c.next != (len(said.Next) > 0) {
				t.Errorf("%s: %q of %v, want %q; it says %q, next %v", code, fault.KindOf(why), why, want, said.Public, said.Next)
			}
		}
		if n := len(calls); n != 3 {
			t.Errorf("%s: %d requests", code, n)
		}
		srv.Close()
	}
}

// An answer that says that something failed and not what is no success.
func TestAnAnswerThatTellsTooLittleIsAFailureOfAll(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprint(w, `{"FailedEntryCount":1,"Entries":[]}`)
	}))
	defer srv.Close()
	err := at(t, srv.URL).Publish(t.Context(), detail(0), detail(1))
	if !slices.ContainsFunc([]int{0, 1}, func(i int) bool { return bus.NotTaken(err, i) != nil }) {
		t.Errorf("it says %v", err)
	}
}
