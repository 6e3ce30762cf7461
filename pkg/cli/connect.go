package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/login"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// How long a local command waits for a control plane it started, how often it
// looks at first and at most, and how long one look may take.
const (
	startPatience = 30 * time.Second
	lookFirst     = 10 * time.Millisecond
	lookMost      = 500 * time.Millisecond
	lookLimit     = 2 * time.Second
)

// planeStatus is what GET /daemon/status says (RP-019).
type planeStatus struct {
	Version      string `json:"version"`
	SourceID     string `json:"sourceId"`
	CodeSHA      string `json:"codeSha"`
	ProjectRoot  string `json:"projectRoot"`
	DashboardURL string `json:"dashboardUrl"`
}

// paths finds the project the working directory belongs to.
func (e *Env) paths() (config.Paths, error) {
	root, err := config.FindRoot(e.Dir)
	if err != nil {
		return config.Paths{}, err
	}
	return config.PathsFor(root, e.Getenv)
}

// client returns a client of the control plane in charge: the one LAZY_TARGET
// names, else the one that this clone is bound to, else the project's own, started when it does not run.
func (e *Env) client(ctx context.Context) (Client, error) {
	if url := e.Getenv(names.EnvTarget); url != "" {
		return e.target(url)
	}
	if l, ok, err := login.Bound(e.Dir); err != nil || ok {
		if err != nil {
			return nil, err
		}
		return e.signedIn(l)
	}
	p, err := e.paths()
	if err != nil {
		return nil, e.unbound(err)
	}
	plane, ok, err := e.alive(ctx, p)
	if err != nil {
		return nil, err
	}
	if !ok {
		if plane, err = e.start(ctx, p, false); err != nil {
			return nil, err
		}
	}
	return e.dial(p, plane)
}

// nowhere reports whether err says no more than that no project is in charge here:
// the working directory is in none, and no other is named.
func (e *Env) nowhere(err error) bool {
	_, outside := config.GitRoot(e.Dir)
	return e.Getenv(names.EnvTarget) == "" && (refusal.Is(err, refusal.NotBound) || outside != nil)
}

// unbound is the refusal of a clone that works with no project at all, neither of
// this machine nor elsewhere (LG-007); err is why it is none of this machine.
func (e *Env) unbound(err error) error {
	if root, gerr := config.GitRoot(e.Dir); gerr == nil && missing(filepath.Join(root, config.File)) {
		return refusal.Of(refusal.NotBound).
			WithNext("Run `lazy init` there to work on it on this machine alone: it has no " + config.File + " yet.")
	}
	return err
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// target uses a control plane somewhere else. Nothing is started for it.
func (e *Env) target(url string) (Client, error) {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return nil, fault.New(fault.Invalid, "%s=%s is not an address; expected http://… or https://…", names.EnvTarget, url)
	}
	url = strings.TrimRight(url, "/")
	token := e.Getenv(names.EnvToken)
	if token == "" {
		return e.loginAt(url)
	}
	return e.dialer(url, token, e.transport()), nil
}

func (e *Env) dial(p config.Paths, plane config.Plane) (Client, error) {
	token, err := e.owner(p)
	if err != nil {
		return nil, err
	}
	return e.dialer(plane.URL, token, &http.Transport{}), nil
}

// owner reads the credential of the person whose machine this is.
func (e *Env) owner(p config.Paths) (string, error) {
	token, err := config.ReadToken(p.Token())
	if err != nil {
		return "", fault.Wrap(fault.Unauthenticated, err, "the owner's credential %s cannot be read", p.Token()).
			WithNext("Run lazy as the user who owns that file.")
	}
	return token, nil
}

// alive reads where the project's control plane says it listens and asks
// whether it is really that one: after a crash the port may be somebody else's,
// who must not be sent the owner's credential.
func (e *Env) alive(ctx context.Context, p config.Paths) (config.Plane, bool, error) {
	plane, ok, err := config.ReadPlane(p.Plane())
	if err != nil {
		return plane, false, fault.Wrap(fault.Invalid, err, "%s cannot be read", p.Plane()).
			WithNext("Run lazy as the user who owns that file.")
	}
	if !ok {
		return plane, false, nil
	}
	st, err := e.look(ctx, plane.URL)
	if err != nil || st.ProjectRoot != p.Root {
		return plane, false, ctx.Err()
	}
	if st.Version != e.Version && st.Version != "" {
		e.note("the control plane runs version %s and this is %s; `lazy plane restart` brings them together", line(st.Version), e.Version)
	}
	return plane, true, nil
}

// look asks a control plane who it is. It sends no credential.
func (e *Env) look(ctx context.Context, url string) (planeStatus, error) {
	var st planeStatus
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/daemon/status", http.NoBody)
	if err != nil {
		return st, fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := lookClient().Do(req)
	if err != nil {
		return st, fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return st, fmt.Errorf("ask %s: status %d", url, resp.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&st); err != nil {
		return st, fmt.Errorf("understand %s: %w", url, err)
	}
	return st, nil
}

// lookClient goes straight to the address: a proxy of the environment has no
// business between a command and its own machine.
func lookClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// start brings the project's control plane up in a process of its own. Of two
// commands that find none, the lock lets one start it and the other wait.
func (e *Env) start(ctx context.Context, p config.Paths, quiet bool) (config.Plane, error) {
	if _, err := config.LoadProject(p.Config()); err != nil {
		return config.Plane{}, err // the reason the plane would die of, before starting it
	}
	if err := os.MkdirAll(filepath.Dir(p.Log()), 0o700); err != nil {
		return config.Plane{}, fault.Wrap(fault.Failed, err, "there is no place for state in %s: %v", p.Home, cause(err)).
			WithNext("Free the disk or set " + names.EnvHome + " to a directory you can write to.")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, errNotUp)
	defer cancel()
	pause := lookFirst
	for {
		unlock, mine, err := e.Lock(p.StartLock())
		if err != nil {
			return config.Plane{}, fmt.Errorf("lock %s: %w", p.StartLock(), err)
		}
		if mine {
			defer unlock()
			break
		}
		if plane, ok, err := e.alive(ctx, p); err != nil || ok {
			return plane, err
		}
		if err := sleep(ctx, &pause); err != nil {
			return config.Plane{}, e.notUp(err, p)
		}
	}
	if plane, ok, err := e.alive(ctx, p); err != nil || ok {
		return plane, err // the one before us started it
	}
	if !quiet {
		e.note("starting the control plane of %s (stop it with `lazy down`)", p.Root)
	}
	began := e.Now()
	env := withEnv(e.Environ(), names.EnvHome, p.Home)
	argv := []string{e.Self, "-C", p.Root, "up", "--detached"}
	if err := e.Detach(argv, env, p.Root, p.Log()); err != nil {
		return config.Plane{}, fault.Wrap(fault.Failed, err, "the control plane could not be started: %v", cause(err))
	}
	pause = lookFirst
	for {
		if plane, ok, err := e.alive(ctx, p); err != nil || ok {
			return plane, err
		}
		if why := startFailure(p, began); why != nil {
			return config.Plane{}, why
		}
		if err := sleep(ctx, &pause); err != nil {
			return config.Plane{}, e.notUp(err, p)
		}
	}
}

var errNotUp = errors.New("the control plane did not answer in time")

func (e *Env) notUp(err error, p config.Paths) error {
	if !errors.Is(err, errNotUp) {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "the control plane did not answer within %s", span(startPatience)).
		WithNext("Look at " + p.Log() + ", or run `lazy up` to see it start.")
}

// startFailureFile is where a detached `lazy up` that cannot start says why, so
// that the command that started it gives the reason at once.
func startFailureFile(p config.Paths) string { return filepath.Join(p.Dir, "start.failed") }

type startFailed struct {
	Code   string       `json:"code"`
	Kind   fault.Kind   `json:"kind"`
	Public string       `json:"message"`
	Next   []fault.Next `json:"next"`
}

func startFailure(p config.Paths, since time.Time) error {
	var f startFailed
	info, serr := os.Stat(startFailureFile(p))
	b, rerr := os.ReadFile(startFailureFile(p))
	known := serr == nil && rerr == nil && !info.ModTime().Before(since.Add(-time.Second)) && json.Unmarshal(b, &f) == nil
	if !known || f.Public == "" {
		return nil // it may still come up
	}
	_ = os.Remove(startFailureFile(p))
	return &fault.Error{Kind: f.Kind, Code: f.Code, Public: f.Public, Next: f.Next}
}

func saveStartFailure(p config.Paths, err error) {
	f := fault.Of(err)
	public := f.Public
	if f.Kind == fault.Internal && f.Err != nil {
		public = f.Err.Error()
	}
	b, jerr := json.Marshal(startFailed{Code: f.Code, Kind: f.Kind, Public: public, Next: f.Next})
	if jerr == nil {
		_ = config.WritePrivate(startFailureFile(p), b)
	}
}

// sleep waits a growing while.
func sleep(ctx context.Context, pause *time.Duration) error {
	t := time.NewTimer(*pause)
	defer t.Stop()
	*pause = min(*pause*2, lookMost)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// withEnv returns environ with one variable set.
func withEnv(environ []string, name, value string) []string {
	out := make([]string, 0, len(environ)+1)
	for _, kv := range environ {
		if k, _, _ := strings.Cut(kv, "="); k != name {
			out = append(out, kv)
		}
	}
	return append(out, name+"="+value)
}

// cause is the system's own word for an error, without the path before it.
func cause(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}
