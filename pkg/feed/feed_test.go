package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// cases notes what it is asked for, and answers as it is told to.
type cases struct {
	asked []string
	do    func(what string) error
}

func (c *cases) note(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	c.asked = append(c.asked, what)
	if c.do == nil {
		return nil
	}
	return c.do(what)
}

func (c *cases) Consume(_ context.Context, k store.Key) error { return c.note("consume %s", k) }

func (c *cases) Sweep(_ context.Context, limit int) (int, error) {
	return 0, c.note("sweep %d", limit)
}

func (c *cases) RunnerGone(_ context.Context, tenant string, t id.Task, epoch int64, r runner.Report) error {
	return c.note("gone %s %s %d: %d %s", tenant, t, epoch, r.ExitCode, r.Reason)
}

func (c *cases) FlowEnded(_ context.Context, tenant, op string) error {
	return c.note("flow %s %s", tenant, op)
}

func (c *cases) Bootstrap(_ context.Context, in app.Bootstrap) (app.Bootstrapped, error) {
	return app.Bootstrapped{Tenant: in.Tenant}, c.note("bootstrap %s", in.Tenant)
}

func (c *cases) SetSignIn(_ context.Context, in app.SignInConfig) error {
	return c.note("sign-in %s", in.Issuer)
}

func (c *cases) RemoveMember(_ context.Context, tenant, email string) error {
	return c.note("remove %s %s", tenant, email)
}

// rig is the function over scripted cases; parked is what was put aside.
type rig struct {
	*cases
	conf   feed.Config
	parked []string
	now    time.Time
}

// container reads a change that says of which task it is.
func container(detail []byte) (feed.Ending, bool, error) {
	var d struct{ Task id.Task }
	err := json.Unmarshal(detail, &d)
	return feed.Ending{Tenant: "acme", Task: d.Task, Epoch: 3, Report: runner.Report{ExitCode: 137, Reason: "lost"}}, d.Task != "", err
}

func newRig() *rig {
	r := &rig{cases: &cases{}, now: time.Now()}
	r.conf = feed.Config{
		Cases: r.cases, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.now }, Container: container, Rows: 7,
		Park: func(_ context.Context, body []byte, _ string) error {
			r.parked = append(r.parked, string(body))
			return nil
		},
	}
	return r
}

// batch hands records to the function and returns the ids that must come again.
func (r *rig) batch(ctx context.Context, t *testing.T, records ...string) []string {
	t.Helper()
	out, err := feed.Handler(r.conf)(ctx, []byte(`{"Records":[`+strings.Join(records, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), `{"batchItemFailures":[`) {
		t.Errorf("the answer is %s, which retries nothing or everything", b)
	}
	var again []string
	for _, f := range out.(feed.Answer).Failures {
		again = append(again, f.ID)
	}
	return again
}

func message(id, body string) string {
	b, _ := json.Marshal(map[string]string{"eventSource": "aws:sqs", "messageId": id, "body": body})
	return string(b)
}

func row(seq, sk string) string {
	return fmt.Sprintf(`{"eventSource":"aws:dynamodb","eventName":"INSERT","dynamodb":{"SequenceNumber":%q,"Keys":{"pk":{"S":"T#acme#TSK#x"},"sk":{"S":%q}}}}`, seq, sk)
}

const clock = `{"source":"aws.events","detail-type":"Scheduled Event","detail":{}}`

func flow(turn string) string {
	in, _ := json.Marshal(map[string]any{"v": 1, "tenant": "acme", "turn": turn, "n": 1})
	b, _ := json.Marshal(map[string]any{
		"source": "aws.states", "detail-type": "Step Functions Execution Status Change", "detail": map[string]any{"status": "FAILED", "input": string(in)},
	})
	return string(b)
}

func TestB09AnUnreadableMessageIsPutAsideAndItsNeighboursAreServed(t *testing.T) {
	req.Covers(t, "B09", "P11")
	r := newRig()
	again := r.batch(t.Context(), t, message("1", flow("a")), message("2", `{"x":`), message("3", flow("c")))
	if len(again) != 0 || !slices.Equal(r.asked, []string{"flow acme a", "flow acme c"}) || !slices.Equal(r.parked, []string{`{"x":`}) {
		t.Errorf("asked %v, parked %v, again %v", r.asked, r.parked, again)
	}
	r.conf.Park = func(context.Context, []byte, string) error { return errors.New("full") }
	if again := r.batch(t.Context(), t, message("1", clock), message("2", `{"x":`)); !slices.Equal(again, []string{"2"}) {
		t.Errorf("what could not be put aside is lost: %v come again", again)
	}
	r.conf.Park = nil
	if again := r.batch(t.Context(), t, message("2", `{"x":`)); !slices.Equal(again, []string{"2"}) {
		t.Errorf("without a place to put it, %v come again", again)
	}
}

func TestB08AConsumerThatFailsStandsInNoOthersWay(t *testing.T) {
	req.Covers(t, "B08")
	r := newRig()
	r.do = func(what string) error {
		switch {
		case strings.HasSuffix(what, " bad"):
			panic("no")
		case strings.HasSuffix(what, " busy"):
			return fault.New(fault.Unavailable, "busy")
		case strings.HasSuffix(what, " hopeless"):
			return fault.New(fault.Invalid, "hopeless")
		}
		return nil
	}
	again := r.batch(t.Context(), t, message("1", flow("bad")), message("2", flow("busy")), message("3", flow("hopeless")), message("4", flow("good")))
	if !slices.Equal(again, []string{"1", "2"}) || len(r.parked) != 1 || r.asked[len(r.asked)-1] != "flow acme good" {
		t.Errorf("asked %v, parked %v, again %v", r.asked, r.parked, again)
	}
}

func TestB08AnOutboxRowThatFailsDoesNotHoldUpItsShard(t *testing.T) {
	req.Covers(t, "B08", "P11")
	r := newRig()
	r.do = func(what string) error {
		if strings.HasSuffix(what, "OUT#1") {
			return errors.New("no")
		}
		return nil
	}
	again := r.batch(t.Context(), t, row("1", "OUT#1"), row("2", "OUT#2"), row("3", "HIS#1"), `{"eventSource":"aws:dynamodb","eventName":"REMOVE","dynamodb":{"SequenceNumber":"4","Keys":{"pk":{"S":"T#a"},"sk":{"S":"OUT#3"}}}}`, row("5", ""))
	want := []string{"consume T#acme#TSK#x OUT#1", "consume T#acme#TSK#x OUT#2"}
	if len(again) != 0 || !slices.Equal(r.asked, want) {
		t.Errorf("asked %v, again %v", r.asked, again)
	}
}

func TestNothingIsBegunThatCannotBeFinished(t *testing.T) {
	r := newRig()
	ctx, cancel := context.WithDeadline(t.Context(), r.now.Add(time.Minute))
	defer cancel()
	r.do = func(string) error {
		r.now = r.now.Add(58 * time.Second)
		return nil
	}
	again := r.batch(ctx, t, message("1", clock), message("2", clock), message("3", clock))
	if !slices.Equal(again, []string{"2", "3"}) || !slices.Equal(r.asked, []string{"sweep 7"}) {
		t.Errorf("asked %v, again %v", r.asked, again)
	}
}

func TestTheEndOfAFlowOfALaterVersionComesAgain(t *testing.T) {
	r := newRig()
	later := strings.ReplaceAll(flow("a"), `\"v\":1`, `\"v\":2`)
	if again := r.batch(t.Context(), t, message("1", later), message("2", flow("b"))); !slices.Equal(again, []string{"1"}) || len(r.parked) != 0 {
		t.Errorf("%v come again, parked %v", again, r.parked)
	}
}

func TestTheEndOfAContainerIsHeardOf(t *testing.T) {
	r := newRig()
	event := func(detail string) string {
		return message("1", `{"source":"aws.ecs","detail-type":"ECS Task State Change","detail":`+detail+`}`)
	}
	again := r.batch(t.Context(), t, event(`{"task":"x"}`), event(`{}`), event(`[]`))
	if want := []string{"gone acme x 3: 137 lost"}; !slices.Equal(r.asked, want) || len(again) != 0 || len(r.parked) != 1 {
		t.Errorf("asked %v, want %v; parked %v, again %v", r.asked, want, r.parked, again)
	}
}

func TestATenantIsMadeOnlyForWhoMayInvokeTheFunction(t *testing.T) {
	r := newRig()
	event := `{"source":"lazyplane.operator","detail-type":"Bootstrap","detail":{"tenant":"acme"}}`
	r.batch(t.Context(), t, message("1", event))
	if len(r.asked) != 0 {
		t.Errorf("a message in the queue asks for %v", r.asked)
	}
	out, err := feed.Handler(r.conf)(t.Context(), []byte(event))
	if err != nil || out.(app.Bootstrapped).Tenant != "acme" {
		t.Errorf("%v, %v", out, err)
	}
	for in, want := range map[string]string{
		`{"source":"lazyplane.operator","detail-type":"SignIn","detail":{"issuer":"https://id.example","client":"lazy"}}`:   "sign-in https://id.example",
		`{"source":"lazyplane.operator","detail-type":"RemoveMember","detail":{"tenant":"acme","email":"ada@example.com"}}`: "remove acme ada@example.com",
	} {
		r.asked = nil
		r.batch(t.Context(), t, message("1", in))
		if len(r.asked) != 0 {
			t.Errorf("a message in the queue asks for %v", r.asked)
		}
		if _, err := feed.Handler(r.conf)(t.Context(), []byte(in)); err != nil || !slices.Equal(r.asked, []string{want}) {
			t.Errorf("%s asks for %v, %v", in, r.asked, err)
		}
	}
	for _, in := range []string{`{"source":"lazyplane.operator","detail-type":"RemoveMember","detail":{}}`, `{"source":"lazyplane.operator","detail-type":"SignIn","detail":7}`} {
		if _, err := feed.Handler(r.conf)(t.Context(), []byte(in)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s gives %v", in, err)
		}
	}
	r.asked = []string{"bootstrap acme"}
	r.conf.Overdue = func(context.Context) error { return r.note("overdue") }
	if _, err := feed.Handler(r.conf)(t.Context(), []byte(clock)); err != nil || r.asked[1] != "sweep 7" || r.asked[2] != "overdue" {
		t.Errorf("the clock by hand: %v, %v", r.asked, err)
	}
	for _, in := range []string{``, `[]`, `{}`, `{"Records":7}`} {
		if _, err := feed.Handler(r.conf)(t.Context(), []byte(in)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q gives %v", in, err)
		}
	}
}

func TestTheSampleEventIsServed(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "functions", "events", "event.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig()
	out, err := feed.Handler(r.conf)(t.Context(), b)
	if err != nil || len(out.(feed.Answer).Failures) != 0 || len(r.asked) != 2 || len(r.parked) != 1 {
		t.Errorf("asked %v, parked %v, answered %v, %v", r.asked, r.parked, out, err)
	}
}
