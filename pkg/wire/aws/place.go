package aws

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
	"github.com/lazyplane/lazyplane/pkg/runner/process"
	"github.com/lazyplane/lazyplane/pkg/wire/depot"
	"github.com/lazyplane/lazyplane/pkg/wire/disk"
)

// place fills in where agents run and where their repositories are.
func (p *Plane) place(d *app.Deps, session func(string) aws.Config) error {
	d.Runner = nowhere{}
	// A container has one task.
	at := func(string) (string, string) { return names.HostedWork, names.HostedWork + "/shared" }
	if c := p.Config.Fargate; c != nil {
		d.Runner = fargate.New(ecs.NewFromConfig(session("ECS")), d.Store, fargate.Config{
			Cluster: c.Cluster, Subnets: c.Subnets, SecurityGroups: []string{c.SecurityGroup}, PublicIP: true, Spot: true,
			Image: p.image, MaxAge: maxAge, Target: p.Config.URL, Now: time.Now,
			Task: fargate.Definition{
				Family: c.Family, SupervisorImage: c.Supervisor, ExecutionRole: c.ExecutionRole, LogGroup: c.Logs,
				Region: p.Config.Region, CPU: c.CPU, MemoryMiB: c.MemoryMiB, DiskGiB: c.DiskGiB, ARM: true,
			},
		})
	}
	if c := p.Config.Process; c != nil {
		at = func(short string) (string, string) {
			return filepath.Join(c.State, "tasks", short), filepath.Join(c.State, "shared", short)
		}
		d.Runner = process.New(process.Config{
			BinPath: c.Agent, StateDir: c.State, Target: func() string { return p.Config.URL }, Now: time.Now, Log: p.Log,
		})
	}
	repos, err := depot.New(depot.Config{
		Store: d.Store, Blob: d.Blob, Seal: d.Seal, Tasks: func() depot.Tasks { return p.App },
		// Nothing on this disk outlives the process, and no two share it.
		Scratch: filepath.Join(os.TempDir(), "lazy-"+strconv.Itoa(os.Getpid())), Place: at, Now: time.Now,
	})
	if err != nil {
		return err
	}
	d.Repos = repos.Of
	return nil
}

// maxAge is when a container is stopped whatever it says: the longest turn, its
// launch, and an hour.
const maxAge = names.TurnAge + names.LaunchLimit + time.Hour

// image is what a run's agent lives in.
func (p *Plane) image(context.Context, runner.Spec) (string, error) {
	c := p.Config.Fargate
	if c.Supervisor == "" || c.Runtime == "" {
		return "", fault.New(fault.Unavailable, "this control plane has no images to run agents in").
			WithNext("Whoever runs it pushes them as docs/deploy.md says.")
	}
	return c.Runtime, nil
}

// settings reads a project's lazy.toml out of its row.
func (p *Plane) settings(ctx context.Context, tenant, project string) (app.Settings, error) {
	row, err := p.App.ProjectOf(ctx, tenant, project)
	if err != nil {
		return app.Settings{}, err
	}
	cfg, problems := config.ParseProject([]byte(row.Config))
	if len(problems) > 0 {
		return app.Settings{}, fault.New(fault.Invalid, "the configuration of %s is not valid:\n  %s", project, strings.Join(problems, "\n  "))
	}
	out := disk.Of(cfg)
	if c := p.Config.Process; c != nil {
		out.HostProcess = c.Host
	}
	return out, nil
}

// Park is where the events function puts aside what nobody can understand, nil
// where there is no queue for it.
func (p *Plane) Park() func(ctx context.Context, body []byte, why string) error {
	if p.Parked == nil {
		return nil
	}
	return func(ctx context.Context, body []byte, why string) error {
		return p.Parked.Send(ctx, body, map[string]string{"why": why})
	}
}

// Overdue ends containers that are older than a run may be, nil where runs are no
// containers.
func (p *Plane) Overdue() func(ctx context.Context) error {
	f, ok := p.App.Runner.(*fargate.Runner)
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		refs, err := f.StopOverdue(ctx)
		for _, ref := range refs {
			p.Log.ErrorContext(ctx, "a container was older than a run may be and is stopped", "ref", ref)
		}
		return err
	}
}
