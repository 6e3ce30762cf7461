package local_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/turn"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

func newRepository(r *rig) app.Repository { return local.NewRepository(r.repo, r.paths) }

// host is a machine on which supervisors run. They outlive control planes. Each
// follows a script: what its agent and fate do after the hello.
type host struct {
	r *rig

	mu         sync.Mutex
	scripts    []func(*sup) // guarded by mu: for the next launches
	runs       map[string]*sup
	greetings  map[string]greeting
	launches   int
	most       int  // most supervisors that were alive for one task at once
	deaf       bool // whether the end of a process goes unnoticed
	refuse     error
	blind      bool // whether nothing can be said about runs
	lose       int  // launches whose reference is lost on the way back
	beforeStep func(step string)
	failStep   map[string]error
	patient    bool // whether Stop leaves it to the run to hear of the stop
	group      sync.WaitGroup
}

// greeting is what the plane told a run at its hello. The run's own fields belong
// to its goroutine alone.
type greeting struct {
	cmd    turn.Command
	runner identity.Caller
}

func newHost(r *rig) *host {
	return &host{r: r, runs: map[string]*sup{}, greetings: map[string]greeting{}}
}

// next says what the next run does.
func (h *host) next(f ...func(*sup)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scripts = append(h.scripts, f...)
}

func refOf(t id.Task, epoch int64) string { return fmt.Sprintf("%s/%d", t, epoch) }

var errLostRef = errors.New("host: the answer to the launch was lost")

// Launch starts a supervisor, or names the one that was started already.
func (h *host) Launch(_ context.Context, spec runner.Spec) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return "", h.refuse
	}
	ref := refOf(spec.Task, spec.Epoch)
	if _, ok := h.runs[ref]; ok {
		return ref, nil
	}
	s := &sup{h: h, spec: spec, ref: ref, gone: make(chan struct{}), script: work("done.txt", "done\n")}
	if len(h.scripts) > 0 {
		s.script, h.scripts = h.scripts[0], h.scripts[1:]
	}
	s.ctx, s.kill = context.WithCancelCause(context.Background())
	h.runs[ref] = s
	h.launches++
	alive := 0
	for _, o := range h.runs {
		if o.spec.Task == spec.Task && !o.isGone() {
			alive++
		}
	}
	h.most = max(h.most, alive)
	h.group.Go(s.live)
	if h.lose > 0 {
		h.lose--
		return "", fault.Wrap(fault.Unavailable, errLostRef, "the launch may have happened")
	}
	return ref, nil
}

// Find locates a run by its tag.
func (h *host) Find(_ context.Context, t id.Task, epoch int64) (string, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ref := refOf(t, epoch)
	_, ok := h.runs[ref]
	return ref, ok, nil
}

// Observe says what became of a run.
func (h *host) Observe(_ context.Context, ref string) (runner.Report, error) {
	h.mu.Lock()
	s, blind := h.runs[ref], h.blind
	h.mu.Unlock()
	switch {
	case blind:
		return runner.Report{Sight: runner.Unclear}, nil
	case s == nil:
		return runner.Report{Sight: runner.Gone, Reason: "no such run"}, nil
	case s.hidden.Load():
		return runner.Report{Sight: runner.Gone, ExitCode: 137, Reason: "OOM killed or SIGKILL (exit code 137)", Log: "last words\n"}, nil
	case !s.isGone():
		return runner.Report{Sight: runner.Alive}, nil
	}
	return s.report(), nil
}

// Stop ends a run from outside.
func (h *host) Stop(_ context.Context, ref, why string) error {
	h.mu.Lock()
	s, patient := h.runs[ref], h.patient
	h.mu.Unlock()
	if s != nil && !s.isGone() && !s.stubborn.Load() && !patient {
		s.kill(fmt.Errorf("stopped from outside: %s", why))
	}
	return nil
}

func (h *host) run(t id.Task, epoch int64) *sup {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[refOf(t, epoch)]
}

// heard is what a run was told, once it said hello.
func (h *host) heard(t id.Task, epoch int64) (greeting, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.greetings[refOf(t, epoch)]
	return g, ok
}

// watch has f called before each step of a flow; breakStep has steps fail.
func (h *host) watch(f func(step string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beforeStep = f
}

func (h *host) breakStep(errs map[string]error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failStep = errs
}

// setRefuse makes launches fail for a reason, or succeed again.
func (h *host) setRefuse(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = nil
	if why != "" {
		h.refuse = fault.New(fault.Unavailable, "%s", why)
	}
}

func (h *host) setBlind(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blind = on
}

// bePatient has Stop leave it to the run to hear of the stop.
func (h *host) bePatient(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.patient = on
}

// beDeaf has ends of processes go unnoticed.
func (h *host) beDeaf(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = on
}

// loseNext loses the references of the next n launches on the way back.
func (h *host) loseNext(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lose = n
}

// atOnce is the most supervisors that were alive for one task at once.
func (h *host) atOnce() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
}

func (h *host) launched() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.launches
}

func (h *host) killAll() {
	h.mu.Lock()
	for _, s := range h.runs {
		s.kill(errors.New("the machine is switched off"))
	}
	h.mu.Unlock()
	h.group.Wait()
}
