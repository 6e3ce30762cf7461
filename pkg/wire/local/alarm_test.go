package local_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// lines is a log that many write to.
type lines struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// counted sums the metrics that CloudWatch would read out of the lines.
func (l *lines) counted(t *testing.T) map[string]float64 {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := map[string]float64{}
	for line := range strings.Lines(l.text.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if m["_aws"] == nil {
			continue
		}
		name, _ := m[names.AttrMetric].(string)
		n, ok := m[name].(float64)
		if !ok || m["tenant"] != tenant && name != names.MetricNonce {
			t.Errorf("a metric without its value or tenant: %s", line)
		}
		sum[name] += n
	}
	return sum
}

func TestWhatAlarmsWatchIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.down()
		l := &lines{}
		r.log = telemetry.New(l, telemetry.Options{Stage: "test"})
		r.up()
		r.started("fine")
		if got := l.counted(t); len(got) != 0 {
			t.Errorf("a task without trouble counts %v", got)
		}

		dead := crash(40*time.Second, 1, "boom")
		r.host.next(dead, dead, dead)
		tid := r.create("dies")
		r.do("startTask", in{"task_id": "dies"})
		r.until("three interruptions", func() bool { return r.task(tid).Interruptions == 3 })
		if n := l.counted(t)[names.MetricBreaker]; n != 1 {
			t.Errorf("the breaker tripped %v times", n)
		}

		other := r.started("unlucky")
		r.host.setRefuse("no capacity")
		r.do("unblockTask", in{"task_id": "unlucky", "feedback": "more"})
		r.until("a failed launch", func() bool { return l.counted(t)[names.MetricLaunch] > 0 })
		r.host.setRefuse("")
		r.rest(other, task.Blocked)

		used := ""
		r.host.next(func(s *sup) { used = s.spec.Nonce; s.begin(); s.ok("done") })
		r.started("copied")
		if _, err := r.app().Hello(t.Context(), turn.Hello{Nonce: used, Key: "another", PID: 1, Started: "x", Version: "test"}); err == nil {
			t.Error("a nonce was taken twice")
		}
		if n := l.counted(t)[names.MetricNonce]; n != 1 {
			t.Errorf("%v nonces were used twice", n)
		}

		before := l.counted(t)[names.MetricSweepRepair]
		r.deliver = -1 // no event arrives any more
		r.down()
		r.up()
		r.started("late")
		if n := l.counted(t)[names.MetricSweepRepair] - before; n < 1 {
			t.Errorf("the sweep did the work of lost events and counts %v", n)
		}
		// All that there are, and no others: what the stack watches is compared with
		// the same list.
		all := slices.Sorted(maps.Keys(l.counted(t)))
		if want := slices.Sorted(slices.Values(names.Metrics())); !slices.Equal(all, want) {
			t.Errorf("counted were %q, want %q", all, want)
		}
	})
}
