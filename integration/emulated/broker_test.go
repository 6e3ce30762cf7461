package emulated_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// reaped is an agent that does its work.
const reaped = `set -e
echo "work of $LAZY_TASK_CODE" >> "$LAZY_TASK_CODE.txt"
lazy-agent call lazy_commit '{"message":"do the work"}' >/dev/null
lazy-agent call lazy_final '{"note":"done"}' >/dev/null
`

// reaper kills the brokers of accepts with kill -9: the first just before its merge
// is stored, the second just after.
type reaper struct {
	t *testing.T

	mu    sync.Mutex
	state string // guarded by mu: where runs live
	puts  int    // guarded by mu: merges that were stored, or about to be
}

func (r *reaper) between(services http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		if in.Method != http.MethodPut || !strings.Contains(in.URL.Path, "/git/land/") {
			services.ServeHTTP(w, in)
			return
		}
		r.mu.Lock()
		r.puts++
		n, state := r.puts, r.state
		r.mu.Unlock()
		switch n {
		case 1:
			r.kill(state, "2")
			panic(http.ErrAbortHandler)
		case 2:
			services.ServeHTTP(httptest.NewRecorder(), in)
			r.kill(state, "3")
			panic(http.ErrAbortHandler)
		}
		services.ServeHTTP(w, in)
	})
}

func (r *reaper) kill(state, epoch string) {
	dirs, err := filepath.Glob(filepath.Join(state, "runs", "*", epoch))
	if err != nil || len(dirs) != 1 {
		r.t.Errorf("brokers of epoch %s: %v, %v", epoch, dirs, err)
		return
	}
	var i spool.Ident
	if ok, err := spool.Read(dirs[0], spool.SelfFile, &i); err != nil || !ok {
		r.t.Errorf("the broker of epoch %s: %v", epoch, err)
		return
	}
	if err := syscall.Kill(i.PID, syscall.SIGKILL); err != nil {
		r.t.Error(err)
	}
}

// An accept merges in a process of its own. Killed twice, the third one finishes,
// and there is one merge.
func TestAHostedAcceptOutlivesItsBrokers(t *testing.T) {
	req.Covers(t, "GT-023", "P4")
	r := &reaper{t: t}
	root := repository(t, reaped)
	s, _ := emulate(t, root, func(o *emulated.Options) { o.Between = r.between })
	r.mu.Lock()
	r.state = s.State()
	r.mu.Unlock()
	w := hosted(t, s, root)
	w.job("plain")
	if n := git(t, root, "rev-list", "--count", "--first-parent", "main"); n != "2" {
		t.Errorf("main has %s commits, want the first and one merge", n)
	}
	if got := git(t, root, "show", "main:plain.txt"); got != "work of plain" {
		t.Errorf("the work is %q", got)
	}
	runs, err := filepath.Glob(filepath.Join(s.State(), "runs", "*", "*", spool.StartFile))
	if err != nil || len(runs) != 4 {
		t.Errorf("%d runs were launched, want the turn's and three brokers: %v", len(runs), err)
	}
}
