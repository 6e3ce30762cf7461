// Package local composes the product as one process: the same handlers, use cases,
// definitions and supervisor as hosted, over a SQLite file, an interpreter of the
// same state machines, files for blobs and processes for runs (DESIGN 2).
package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/blob/file"
	"github.com/lazyplane/lazyplane/pkg/bus/local"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	enginelocal "github.com/lazyplane/lazyplane/pkg/engine/local"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/rpc"
	"github.com/lazyplane/lazyplane/pkg/runner"
	secretfile "github.com/lazyplane/lazyplane/pkg/secret/file"
	"github.com/lazyplane/lazyplane/pkg/step"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/wire/disk"
	"github.com/lazyplane/lazyplane/statemachines"
)

// Tenant is the one tenant of a laptop.
const Tenant = "local"

// Options say which project a plane serves and how.
type Options struct {
	Paths       config.Paths
	Bin         string // the program that runs supervisors and agents' tools
	Port        int    // 0 takes the first free one of the window
	HostProcess bool   // run agents without a sandbox
	Credentials string // folder of the person's model credentials; "" is the one of Paths
	Version     string
	SourceID    string
	CodeSHA     string
	Log         *slog.Logger
	Now         func() time.Time
	// After is the timer of everything that waits; nil means the clock of the
	// process. It must keep the time that Now tells.
	After func(time.Duration) <-chan time.Time
	// CrashPoint is called around every durable step, so that a test can end the
	// process there; nil in production.
	CrashPoint func(point string)
}

// Plane is a running control plane.
type Plane struct {
	URL   string
	Token string // the owner's credential

	app     *app.App
	engine  *enginelocal.Engine
	db      *sqlite.Store
	srv     *http.Server
	jobs    chan store.Key
	bus     *local.Bus
	stop    context.CancelFunc
	tasks   sync.WaitGroup
	gone    chan struct{} // closed when a shutdown was asked for
	once    sync.Once
	paths   config.Paths
	project string
	log     *slog.Logger
}

// Up starts the control plane of one project. It returns once the plane answers;
// an error leaves nothing half-made behind but the state folder.
func Up(ctx context.Context, o Options) (_ *Plane, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(o.Paths.Dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the state folder %s cannot be made", o.Paths.Dir)
	}
	p := &Plane{paths: o.Paths, log: o.Log, jobs: make(chan store.Key, 1024), gone: make(chan struct{})}
	p.bus = newBus(o.Log, o.After)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if o.Bin != "" {
		if o.Bin, err = install(o.Bin, o.Paths.Bin()); err != nil {
			return nil, err
		}
	}
	key, err := secretKey(o.Paths.Key())
	if err != nil {
		return nil, err
	}
	hook := o.CrashPoint
	if hook == nil {
		hook = func(string) {}
	}
	repo, err := git.Open(ctx, o.Paths.Root, git.WithCrashPoint(hook))
	if err != nil {
		return nil, err
	}
	if p.db, err = sqlite.Open(ctx, o.Paths.DB(), o.Now, sqlite.WithCrashPoint(hook)); err != nil {
		return nil, err
	}
	blobs, err := file.New(o.Paths.Blobs(), file.WithCrashPoint(hook))
	if err != nil {
		return nil, err
	}
	set := disk.NewSettings(o.Paths, o.HostProcess)
	project, err := set.Project()
	if err != nil {
		return nil, err
	}
	p.project = project
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	ids := id.Gen{Rand: rand.Reader}
	runs := newRunner(o, func() string { return p.URL }, func(ref string, rep runner.Report) { p.ended(ref, rep) })
	p.app = app.New(app.Deps{
		Store: p.db, Blob: blobs, Repo: disk.NewRepository(repo, o.Paths), Runner: runs, Settings: set.Load,
		Key: key, Now: o.Now, IDs: ids, Log: o.Log, Local: true, Hop: names.HopLocal, After: o.After,
		Publish: func(k store.Key) { p.publish(run, k) }, Moved: p.moved,
		Secrets: secretfile.New(o.credentials()), Seal: newSealer(o.credentials()), Provider: drivers.Provider,
		StopFile: stopFile{o.Paths.GroundStop()},
	})
	if p.engine, err = flows(o, p.db, p.app); err != nil {
		return nil, err
	}
	p.app.Engine = p.engine
	if err := p.app.SeedProtection(ctx, Tenant, project); err != nil {
		return nil, err
	}
	who, err := repo.Identity(ctx)
	if err != nil {
		o.Log.WarnContext(ctx, "git names no person", "error", err)
	}
	if p.Token, err = p.app.MintOwner(ctx, Tenant, project, who.Email, who.Name); err != nil {
		return nil, err
	}
	ln, err := listen(ctx, o.Paths, o.Port)
	if err != nil {
		return nil, err
	}
	p.URL = "http://" + ln.Addr().String()
	p.srv = &http.Server{Handler: p.handler(o, ids, project), ReadHeaderTimeout: 10 * time.Second}
	p.spawn(func() {
		if err := p.srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("the listener ended", "error", err)
		}
	})
	p.spawn(func() {
		if err := p.engine.Run(run); err != nil && run.Err() == nil {
			o.Log.Error("the flow engine ended", "error", err)
		}
	})
	for range pumps {
		p.spawn(func() { p.pump(run) })
	}
	p.spawn(func() { p.sweep(run, o.After) })
	if err := p.announce(o, project); err != nil {
		return nil, err
	}
	p.spawn(func() {
		// Runs that outlived the plane before this one are watched again, and the
		// ends of the others, which nobody saw, are looked for at once (SY-040).
		if _, err := runs.Adopt(); err != nil {
			o.Log.Warn("the runs of this project cannot be listed", "error", err)
		}
		if err := p.app.LookAround(run, Tenant, project); err != nil && run.Err() == nil {
			o.Log.Warn("a task could not be looked at; the sweep will", "error", err)
		}
	})
	return p, nil
}

func (p *Plane) spawn(f func()) { p.tasks.Go(f) }

// flows loads the definitions and makes the engine that runs them.
func flows(o Options, db store.Store, a *app.App) (*enginelocal.Engine, error) {
	var ms []*asl.Machine
	for _, name := range statemachines.Names() {
		src, err := statemachines.Source(name)
		if err != nil {
			return nil, err
		}
		m, err := asl.Load(name, src, map[string]string{"StepFunction": "step"})
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	return enginelocal.New(enginelocal.Options{
		Store: db, Tenant: Tenant, Machines: ms, Step: engine.Step(step.Handler(a)), Now: o.Now, Log: o.Log,
		NewToken: func() string { return randomHex(16) }, After: o.After, CrashPoint: o.CrashPoint,
	})
}

func (p *Plane) handler(o Options, ids id.Gen, project string) http.Handler {
	base := edge.Base{Log: o.Log, Now: o.Now, NewID: ids.New, Hop: names.HopLocal, CrashPoint: o.CrashPoint, Address: edge.Address{URL: p.URL}}
	ops := op.Default()
	routes := rpc.Routes(rpc.Config{
		Base: base, Auth: p.app, App: p.app, Ops: ops, Shutdown: p.askEnd,
		Status: rpc.Status{
			Version: o.Version, SourceID: o.SourceID, CodeSHA: o.CodeSHA, Generation: ids.New(),
			ProjectRoot: o.Paths.Root, Team: Tenant, Project: project,
		},
	})
	routes = append(routes, agentRoutes(o, base, p.app, ops)...)
	return edge.Router(routes...)
}

// announce writes where the plane answers, for clients and for supervisors that
// outlived an earlier one (MC-018).
func (p *Plane) announce(o Options, project string) error {
	if err := config.WritePrivate(o.Paths.Token(), []byte(p.Token+"\n")); err != nil {
		return err
	}
	return config.WritePlane(o.Paths.Plane(), config.Plane{
		URL: p.URL, PID: os.Getpid(), Started: o.Now(), Version: o.Version, Project: project, Root: o.Paths.Root,
		HostProcess: o.HostProcess,
	})
}

const pumps = 8

// publish hands a row that asks for work to the pump, and waits aside while the
// pump is full. A hint that is lost with the process is made up for by the next
// plane's CatchUp and by the row's due time.
func (p *Plane) publish(ctx context.Context, k store.Key) {
	select {
	case p.jobs <- k:
	default:
		go func() {
			select {
			case p.jobs <- k:
			case <-ctx.Done():
			}
		}()
	}
}

func (p *Plane) pump(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case k := <-p.jobs:
			if err := p.app.Consume(ctx, k); err != nil && ctx.Err() == nil {
				p.log.WarnContext(ctx, "an outbox row waits to be retried", "row", k.String(), "error", err)
			}
		}
	}
}

// sweep visits what is due, at the start and then every few seconds (SY-001).
func (p *Plane) sweep(ctx context.Context, after func(time.Duration) <-chan time.Time) {
	if after == nil {
		after = time.After
	}
	if err := p.app.CatchUp(ctx, Tenant, p.project); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "not everything that was left to do was found; the sweep will find it", "error", err)
	}
	for {
		if _, err := p.app.Sweep(ctx, 200); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "the sweep met an error", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-after(app.NextSweep(true)):
		}
	}
}

// ended hears of a supervisor process that exited.
func (p *Plane) ended(ref string, rep runner.Report) {
	short, epoch, ok := strings.Cut(ref, "/")
	n, err := strconv.ParseInt(epoch, 10, 64)
	if !ok || err != nil {
		return
	}
	ctx := context.Background()
	if err := p.app.RunnerExited(ctx, Tenant, p.project, short, n, rep); err != nil {
		p.log.Warn("the end of a run could not be noted; the sweep will find it", "run", ref, "error", err)
	}
}

func (p *Plane) askEnd() { p.once.Do(func() { close(p.gone) }) }

// Wait returns when a shutdown was asked for or ctx ends.
func (p *Plane) Wait(ctx context.Context) {
	select {
	case <-p.gone:
	case <-ctx.Done():
	}
}

// Close ends the plane. Runs go on: a next plane adopts them (AG-020).
func (p *Plane) Close() error {
	var errs []error
	if p.srv != nil {
		end, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if err := p.srv.Shutdown(end); err != nil {
			errs = append(errs, p.srv.Close())
		}
		cancel()
	}
	if p.stop != nil {
		p.stop()
	}
	if p.engine != nil {
		errs = append(errs, p.engine.Close())
	}
	p.tasks.Wait()
	p.bus.Close()
	if p.db != nil {
		errs = append(errs, p.db.Close())
	}
	if p.URL != "" {
		if at, ok, err := config.ReadPlane(p.paths.Plane()); err == nil && ok && at.URL == p.URL {
			errs = append(errs, os.Remove(p.paths.Plane()))
		}
	}
	return errors.Join(errs...)
}

// listen prefers the port the project's last plane had, then the first free one
// of the window (MC-018).
func listen(ctx context.Context, paths config.Paths, port int) (net.Listener, error) {
	var lc net.ListenConfig
	try := func(n int) (net.Listener, error) { return lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", n)) }
	if port != 0 {
		ln, err := try(port)
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "port %d on this machine is taken", port).
				WithNext("Leave --port out to take the next free one, or name another.")
		}
		return ln, nil
	}
	if last, err := os.ReadFile(filepath.Join(paths.Dir, "port")); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(last))); err == nil {
			if ln, err := try(n); err == nil {
				return ln, nil
			}
		}
	}
	for n := names.PortFirst; n < names.PortFirst+names.PortCount; n++ {
		ln, err := try(n)
		if err == nil {
			return ln, config.WritePrivate(filepath.Join(paths.Dir, "port"), []byte(strconv.Itoa(n)+"\n"))
		}
	}
	return nil, fault.New(fault.Unavailable, "every port from %d to %d on this machine is taken", names.PortFirst, names.PortFirst+names.PortCount-1).
		WithNext("End a control plane you no longer need: lazy down. Or name a port: lazy up --port <n>")
}

// secretKey reads the key that token texts derive from, or makes it.
func secretKey(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil {
		key, derr := hex.DecodeString(strings.TrimSpace(string(b)))
		if derr != nil || len(key) != 32 {
			return nil, fault.New(fault.Unavailable, "the key file %s is damaged", path).
				WithNext("Restore it from a backup, or delete it: every credential issued so far then stops working.")
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Unavailable, err, "the key file %s cannot be read", path)
	}
	text := randomHex(32)
	if err := config.WritePrivate(path, []byte(text+"\n")); err != nil {
		return nil, err
	}
	return hex.DecodeString(text)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the process instead
	return hex.EncodeToString(b)
}
