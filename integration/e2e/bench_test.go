package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
)

// BenchmarkUp prints the time from starting the process to its first answer, and
// what it holds in memory while idle.
func BenchmarkUp(b *testing.B) {
	root := repository(b, "true", "")
	home := b.TempDir()
	paths, err := config.PathsIn(home, root)
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	var total time.Duration
	var resident float64
	for b.Loop() {
		_ = os.Remove(paths.Plane())
		began := time.Now()
		cmd := exec.CommandContext(context.WithoutCancel(b.Context()), self, "plane", home, root)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		for !answers(paths) {
			time.Sleep(time.Millisecond)
		}
		total += time.Since(began)
		resident = max(resident, rss(cmd.Process.Pid))
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			b.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/up")
	b.ReportMetric(resident, "MB-idle")
}

func answers(paths config.Paths) bool {
	at, ok, err := config.ReadPlane(paths.Plane())
	if err != nil || !ok {
		return false
	}
	r, err := http.Get(at.URL + "/daemon/status")
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// rss reads the resident memory of a process in MB, 0 where it cannot be told.
func rss(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kb) / 1024
		}
	}
	return 0
}

// BenchmarkStartToAgent prints the time from the start of a task to its agent's
// process running in the sandbox.
func BenchmarkStartToAgent(b *testing.B) {
	w := begin(b, `date +%s%N > began`, "")
	n := 0
	var total time.Duration
	for b.Loop() {
		n++
		code := fmt.Sprintf("s%d", n)
		w.call("createTask", map[string]any{"goal": "Start", "prompt": "x", "code": code})
		began := time.Now()
		w.call("startTask", map[string]any{"task_id": code})
		w.rest(code)
		show := w.call("showTask", map[string]any{"task_id": code})
		at, err := os.ReadFile(filepath.Join(w.paths.Task(show["short_id"].(string)), "tree", "began"))
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(string(at)), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += time.Unix(0, ns).Sub(began)
	}
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/start")
}

// BenchmarkWholeTurn prints what the control plane adds to a turn whose agent
// does nothing: from the start of the task to its rest.
func BenchmarkWholeTurn(b *testing.B) {
	w := begin(b, "true", "")
	n := 0
	var total time.Duration
	for b.Loop() {
		n++
		code := fmt.Sprintf("t%d", n)
		w.call("createTask", map[string]any{"goal": "Turn", "prompt": "x", "code": code})
		began := time.Now()
		w.call("startTask", map[string]any{"task_id": code})
		w.rest(code)
		total += time.Since(began)
	}
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms-overhead/turn")
}

// BenchmarkListOf10000 prints the time of a whole `lazy list` process on a project
// with 10,000 tasks.
func BenchmarkListOf10000(b *testing.B) {
	w := begin(b, "true", "")
	bin := filepath.Join(b.TempDir(), "lazy")
	build := exec.CommandContext(b.Context(), "go", "build", "-o", bin, "github.com/lazyplane/lazyplane/cmd/lazy-agent")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	var n atomic.Int64
	race(16, func(int) {
		c := client.Client{Base: w.plane.URL, Token: w.plane.Token, HTTP: httpClient()}
		for {
			i := n.Add(1)
			if i > 10_000 {
				return
			}
			if err := c.Call(b.Context(), "createTask", map[string]any{"goal": "Task", "prompt": "x", "code": fmt.Sprintf("n%d", i)}, nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
	var total time.Duration
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), bin, "list")
		cmd.Dir = w.root
		cmd.Env = append(os.Environ(), "LAZY_HOME="+w.paths.Home)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("lazy list: %v\n%s", err, out)
		}
		total += time.Since(began)
	}
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/list")
}

// BenchmarkRacingStarts prints how 64 starts of one task at once end.
func BenchmarkRacingStarts(b *testing.B) {
	w := begin(b, "true", "")
	n := 0
	var won, lost atomic.Int64
	for b.Loop() {
		n++
		code := fmt.Sprintf("r%d", n)
		w.call("createTask", map[string]any{"goal": "Race", "prompt": "x", "code": code})
		race(64, func(int) {
			c := client.Client{Base: w.plane.URL, Token: w.plane.Token, HTTP: httpClient()}
			if err := c.Call(b.Context(), "startTask", map[string]any{"task_id": code}, nil); err == nil {
				won.Add(1)
			} else {
				lost.Add(1)
			}
		})
		w.rest(code)
	}
	b.ReportMetric(float64(won.Load())/float64(b.N), "winners")
	b.ReportMetric(float64(lost.Load())/float64(b.N), "losers")
}
