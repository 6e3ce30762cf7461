package crash

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// proves are the requirements each scenario is about.
var proves = map[string][]string{
	"accept":  {"P4", "P9", "SY-033", "AP-018", "CR-017"},
	"twice":   {"P2", "P9", "AP-010", "SM-032"},
	"unblock": {"P3", "P9", "CR-010", "CR-012", "SY-010"},
	"stop":    {"P1", "P7", "HA-028", "SY-043"},
	"reject":  {"SM-026", "SY-006", "P6"},
	"agent":   {"CR-017", "FC-001", "FC-004"},
	"dirty":   {"AP-013", "AP-005", "AP-006"},
	"subtask": {"AP-012", "AP-014", "UW-013"},
	"runner":  {"SY-004", "CR-001", "CR-017", "SY-031"},
	"sandbox": {"FC-001", "AG-006"},
	"restart": {"SY-040", "SY-003", "AG-020"},
}

const golden = "testdata/points.json"

// samples is how many points of each scenario one run of the tests takes.
const samples = 6

// jitter is the share of points, one in so many, that may be missing in a run
// because a beat less was worth storing.
const jitter = 8

// logOf is the end of what the plane of a world wrote.
func logOf(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "plane.log"))
	if err != nil {
		return ""
	}
	var kept []string
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, `"status":200`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-12):], "")
}

func play(t *testing.T, p *Places, s Scenario, at ...int) Outcome {
	t.Helper()
	dir, err := p.Next()
	if err != nil {
		t.Fatal(err)
	}
	out, err := Play(t.Context(), p.Home, dir, s, at...)
	if err != nil {
		t.Fatalf("%v\n%s", err, logOf(dir))
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	return out
}

func places(t *testing.T) *Places {
	t.Helper()
	p, err := NewPlaces()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Remove)
	return p
}

// A clean run counts the durable steps of a scenario; then processes end at some
// of them, evenly spread, others each time: a sequence of runs takes them all.
// LAZY_CRASH_FULL=1 takes all at once; LAZY_CRASH_SEED repeats a choice.
func TestEndingAnyProcessAtAnyPointLosesNothing(t *testing.T) {
	known := map[string]int{}
	if b, err := os.ReadFile(golden); err == nil {
		if err := json.Unmarshal(b, &known); err != nil {
			t.Fatal(err)
		}
	}
	seed := int(time.Now().Unix() % 100_000)
	if s := os.Getenv("LAZY_CRASH_SEED"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("LAZY_CRASH_SEED=%d", seed)
	p := places(t)
	now := map[string]int{}
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			req.Covers(t, proves[s.Name]...)
			n := len(play(t, p, s).Points)
			now[s.Name] = n
			t.Logf("N = %d", n)
			if n < known[s.Name]-known[s.Name]/jitter {
				t.Errorf("%d points, and there were %d: they may only grow", n, known[s.Name])
			}
			step := max(n/samples, 1)
			if os.Getenv("LAZY_CRASH_FULL") != "" {
				step = 1
			} else if testing.Short() {
				step = max(n/2, 1)
			}
			for at := 1 + seed%step; at <= n; at += step {
				t.Run(strconv.Itoa(at), func(t *testing.T) {
					t.Parallel()
					out := play(t, p, s, at)
					if len(out.Died) != 1 {
						t.Logf("ended at %v", out.Died) // a run may be shorter by a beat than the clean one
					}
				})
			}
		})
	}
	if os.Getenv("UPDATE") != "" {
		for name, n := range known {
			now[name] = max(now[name], n)
		}
		b, err := json.MarshalIndent(now, "", "  ")
		if err == nil {
			err = os.WriteFile(golden, append(b, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Deaths come in rows: whoever is started again dies too.
func TestTwoDeathsInARowLoseNothing(t *testing.T) {
	req.Covers(t, "P9", "P4", "P11", "SY-040")
	p := places(t)
	s := Scenarios()[0]
	n := len(play(t, p, s).Points)
	seed := int(time.Now().UnixNano() / 1000 % 9973)
	t.Logf("seed %d", seed)
	for i := range 6 {
		at := 1 + (seed+i*n/6)%n
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			t.Parallel()
			play(t, p, s, at, at+1+seed%7, at+20+seed%11)
		})
	}
}

// endAround plays a scenario again for every point of a clean run that is named
// so, and ends a process there and at the points before and after.
func endAround(t *testing.T, scenario, name string, least int) {
	t.Helper()
	p := places(t)
	var s Scenario
	for _, have := range Scenarios() {
		if have.Name == scenario {
			s = have
		}
	}
	n, ends := 0, map[int]bool{}
	for i, point := range play(t, p, s).Points {
		if strings.Contains(point, name) {
			n++
			ends[i], ends[i+1], ends[i+2] = true, true, true
		}
	}
	if n < least {
		t.Errorf("%s has %d points named %s, want %d", scenario, n, name, least)
	}
	for at := range ends {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			t.Parallel()
			play(t, p, s, at)
		})
	}
}

// A death between the move of a checked out target and its index left the index
// behind: the resumed accept saw the merge in place and never finished it.
func TestACheckoutIsWholeAfterADeathBetweenTheTargetAndItsIndex(t *testing.T) {
	req.Covers(t, "AP-013", "AP-018", "P9")
	endAround(t, "dirty", "plane git.landing.", 5)
}

// A death between the removal of a workspace and that of its branch left both the
// branch and a clean-up that could never succeed: it looked for edits to save in a
// workspace that was gone.
func TestACleanUpCutOffAfterTheWorkspaceIsFinished(t *testing.T) {
	req.Covers(t, "SY-021", "P9", "HA-034")
	endAround(t, "reject", "plane git.ref.", 2)
}
