package feed_test

import (
	"context"
	"encoding/base64"
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

	"github.com/lazyplane/lazyplane/pkg/bus"
	"github.com/lazyplane/lazyplane/pkg/bus/bustest"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// listener is a bus that notes what it took, and refuses by version.
type listener struct {
	took []event.TaskMoved
	no   map[int64]error
}

func (l *listener) Publish(_ context.Context, all ...event.Event) error {
	why := map[int]error{}
	for i, e := range all {
		var m event.TaskMoved
		if err := json.Unmarshal(e.Detail, &m); err != nil {
			return err
		}
		if err := l.no[m.Version]; err != nil {
			why[i] = err
			continue
		}
		l.took = append(l.took, m)
	}
	if len(why) > 0 {
		return &bus.NotTakenError{Why: why}
	}
	return nil
}

func (l *listener) versions() []int64 {
	var out []int64
	for _, m := range l.took {
		out = append(out, m.Version)
	}
	return out
}

// publisher is the function over a bus.
type publisher struct {
	bus    *listener
	parked []string
	full   error // what parking answers
}

func (p *publisher) hand(t *testing.T, records ...string) (again []string) {
	t.Helper()
	h := feed.Publisher(feed.PublishConfig{
		Bus: p.bus, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Park: func(_ context.Context, body []byte, why string) error {
			if p.full == nil {
				p.parked = append(p.parked, why+": "+string(body))
			}
			return p.full
		},
	})
	out, err := h(t.Context(), []byte(`{"Records":[`+strings.Join(records, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range out.(feed.Answer).Failures {
		again = append(again, f.ID)
	}
	return again
}

const someTask = "c0ffee00-ac96-774b-bcce-b302099a8057"

// change is the record of a history row as the stream tells it.
func change(version int64) string {
	doc, _ := json.Marshal(task.History{
		ID: fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", version), From: task.Working, To: task.Blocked, Trigger: task.TurnCompleted,
		Actor: identity.Actor{Role: identity.System}, Version: version, At: time.Unix(1, 0), Reason: "words",
	})
	return changed(fmt.Sprintf("HIS#%08d", version), "INSERT", "1", store.Pack(doc), version)
}

func changed(sk, name, schema string, doc []byte, seq int64) string {
	return fmt.Sprintf(`{"eventSource":"aws:dynamodb","eventName":%q,"dynamodb":{"SequenceNumber":"%d",
		"Keys":{"pk":{"S":"T#acme#TSK#%s"},"sk":{"S":%q}},
		"NewImage":{"project":{"S":"shop"},"schema":{"N":%q},"doc":{"B":%q}}}}`,
		name, seq, someTask, sk, schema, base64.StdEncoding.EncodeToString(doc))
}

func TestAChangeIsToldFromItsRowAlone(t *testing.T) {
	p := &publisher{bus: &listener{}}
	if again := p.hand(t, change(3)); len(again) != 0 || len(p.bus.took) != 1 {
		t.Fatalf("%q come again, told were %v", again, p.bus.took)
	}
	m := p.bus.took[0]
	if m.Tenant != "acme" || m.Project != "shop" || m.Task != someTask || m.Version != 3 || m.From != task.Working || m.To != task.Blocked {
		t.Errorf("it tells %+v", m)
	}
	e := m.Event()
	if err := bustest.Shape(t)(e.Type, e.Detail); err != nil {
		t.Error(err)
	}
}

func TestOnlyNewHistoryRowsAreTold(t *testing.T) {
	p := &publisher{bus: &listener{}}
	again := p.hand(t, changed("HIS#00000003", "REMOVE", "1", nil, 1), changed("META", "INSERT", "1", []byte(`{}`), 2),
		changed("OUT#00000003.0", "INSERT", "1", []byte(`{}`), 3))
	if len(again)+len(p.bus.took)+len(p.parked) != 0 {
		t.Errorf("%q come again, told were %v, put aside %q", again, p.bus.took, p.parked)
	}
}

// Poison is put aside, what may pass comes again, and everything else is told.
func TestAnEventThatCannotBeToldStandsInNoOthersWay(t *testing.T) {
	req.Covers(t, "B08", "P11")
	p := &publisher{bus: &listener{no: map[int64]error{
		3: fault.New(fault.Unavailable, "not now"), 5: fault.New(fault.Invalid, "never"),
	}}}
	broken := changed("HIS#00000007", "INSERT", "1", []byte(`{"x":`), 7)
	other := changed("HIS#00000008", "INSERT", "1", []byte(`{"id":"x","version":9}`), 8)
	newer := changed("HIS#00000009", "INSERT", "2", []byte(`{}`), 9)
	nameless := changed("HIS#00000010", "INSERT", "", []byte(`{}`), 10)
	records := []string{change(2), broken, change(3), other, change(4), newer, change(5), nameless, change(6)}
	if again := p.hand(t, records...); !slices.Equal(again, []string{"9", "3"}) {
		t.Errorf("%q come again", again)
	}
	if got := p.bus.versions(); !slices.Equal(got, []int64{2, 4, 6}) {
		t.Errorf("told were %v", got)
	}
	if len(p.parked) != 4 || !strings.Contains(p.parked[3], `"version":5`) || !strings.Contains(p.parked[0], "HIS#00000007") {
		t.Errorf("put aside were %q", p.parked)
	}
	// Mended, a repetition tells the rest; the others are known by their ids.
	p.bus.no = nil
	if again := p.hand(t, change(3)); len(again) != 0 || !slices.Equal(p.bus.versions(), []int64{2, 4, 6, 3}) {
		t.Errorf("%q come again, told were %v", again, p.bus.versions())
	}
}

func TestWhatCannotBePutAsideComesAgain(t *testing.T) {
	p := &publisher{bus: &listener{no: map[int64]error{2: fault.New(fault.Invalid, "never")}}, full: errors.New("no queue")}
	if again := p.hand(t, change(2), changed("HIS#00000003", "INSERT", "1", []byte(`{`), 3), change(4)); !slices.Equal(again, []string{"3", "2"}) {
		t.Errorf("%q come again", again)
	}
	if got := p.bus.versions(); !slices.Equal(got, []int64{4}) {
		t.Errorf("told were %v", got)
	}
}

func TestABusThatIsAwayIsAskedAgainForAll(t *testing.T) {
	away := fault.New(fault.Unavailable, "away")
	p := &publisher{bus: &listener{no: map[int64]error{1: away, 2: away}}}
	if again := p.hand(t, change(1), change(2)); !slices.Equal(again, []string{"1", "2"}) || len(p.parked) != 0 {
		t.Errorf("%q come again, %q are put aside", again, p.parked)
	}
}

func TestThePublishersSampleIsToldWholeButForItsPoison(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "functions", "publish", "event.json"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct{ Records []json.RawMessage }
	if err := json.Unmarshal(raw, &in); err != nil {
		t.Fatal(err)
	}
	p := &publisher{bus: &listener{}}
	var records []string
	for _, r := range in.Records {
		records = append(records, string(r))
	}
	if again := p.hand(t, records...); len(again) != 0 || len(p.bus.took) != len(records)-1 || len(p.parked) != 1 {
		t.Errorf("%q come again, told were %v, put aside %q", again, p.bus.took, p.parked)
	}
}
