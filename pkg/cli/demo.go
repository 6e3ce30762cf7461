package cli

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/demo"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

func (e *Env) demoCommand() *cobra.Command {
	var o demo.Options
	stack := "local"
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole main job on a small repository, step by step",
		Long: "demo makes a small repository, creates a task in it, lets a scripted agent work on it in its sealed\n" +
			"worktree, shows the result and merges it. It needs no account and keeps to a folder of its own.",
		Example: "  lazy demo\n  lazy demo --agent claude-code     # the real one, with your stored credential\n  lazy demo --stack emulated        # the hosted functions, on an emulator of AWS\n  lazy demo --repo ~/src/project    # on a private clone, which is all it touches",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			switch stack {
			case "local":
				if a, ok := e.agentCLI(o.Agent); ok && a.Found == "" {
					return fault.New(fault.NotFound, "the agent %s is not installed", a.ID).WithNext("Install it: " + a.Get)
				}
				return demo.Run(c.Context(), e.demoHost(o.Agent, o.Model), o)
			case "emulated":
				if o.Agent != "" && o.Agent != "command" {
					return fault.New(fault.Invalid, "the emulated stack runs the scripted agent only")
				}
				h, err := e.emulatedHost()
				if err != nil {
					return err
				}
				return demo.Run(c.Context(), h, o)
			}
			return fault.New(fault.Invalid, "there is no stack %q; expected local or emulated", line(stack))
		},
	}
	c.Flags().StringVar(&o.Repo, "repo", "", "work on a private clone of this repository, which itself is never touched")
	c.Flags().StringVar(&stack, "stack", stack, "local, or emulated: the hosted functions on an emulator of AWS")
	c.Flags().StringVar(&o.Agent, "agent", "", "agent to run: "+strings.Join(names.AgentCLIs(), ", ")+"; a scripted one, command, by default")
	c.Flags().StringVar(&o.Model, "model", "", "model of that agent")
	c.Flags().BoolVar(&o.Keep, "keep", false, "keep the folder also when the demo is interrupted")
	c.Flags().BoolVar(&o.HostProcess, "host-process", false, "run the scripted agent without a sandbox")
	return c
}

func (e *Env) demoHost(agent, model string) demo.Host {
	return demo.Host{
		Out: e.Out, Err: e.Err, Now: e.Now, Environ: e.Environ(), Dir: e.Dir, TempDir: e.TempDir, Self: e.Self, Probe: e.Probe,
		Lazy: func(ctx context.Context, at demo.Place, out, errs io.Writer, args ...string) int {
			return Main(ctx, e.at(at, out, errs), args)
		},
		Up: func(ctx context.Context, at demo.Place, host bool, ready func(string)) error {
			p, err := config.PathsIn(at.Home, at.Repo)
			if err != nil {
				return err
			}
			project, err := config.LoadProject(p.Config())
			if err != nil {
				return err
			}
			home, err := config.Home(e.Getenv) // the demo's state is its own, the person's credentials are theirs
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var lack error
			err = e.Up(ctx, UpOptions{
				Paths: p, Project: project, HostProcess: host, Version: e.Version, Credentials: config.CredentialsIn(home), Model: model,
				Missing: func(services map[string]string) {
					if s, ok := services[agent]; ok {
						lack = fault.Wrap(fault.Failed, demo.ErrUnconfigured, "%s needs a credential of its model's service, and none is stored; nothing was run and nothing is kept", agent).
							WithNext("Store it, in any repository: `lazy auth add " + s + "`")
						cancel()
					}
				},
				Ready: func(url string) {
					if lack == nil {
						ready(url)
					}
				},
			})
			if lack != nil {
				return lack
			}
			return err
		},
	}
}

// emulatedHost is demoHost with the hosted stack in place of the local plane.
func (e *Env) emulatedHost() (demo.Host, error) {
	if _, err := e.LookPath("moto_server"); err != nil && e.Getenv("LAZY_MOTO_PYTHON") == "" {
		return demo.Host{}, fault.New(fault.Failed, "the emulator of AWS is not installed: pip install 'moto[server]==5.2.*'")
	}
	h := e.demoHost("", "")
	var url, token string // set before anything is run on the stack
	h.Ends, h.Apart = true, true
	h.Lazy = func(ctx context.Context, at demo.Place, out, errs io.Writer, args ...string) int {
		sub := e.at(at, out, errs)
		local := sub.Getenv
		sub.Getenv = func(name string) string {
			switch name {
			case names.EnvTarget:
				return url
			case names.EnvToken:
				return token
			}
			return local(name)
		}
		return Main(ctx, sub, args)
	}
	h.Up = func(ctx context.Context, at demo.Place, host bool, ready func(string)) error {
		e.note("building the functions and starting the emulator; that takes a minute")
		return e.Emulate(ctx, EmulateOptions{
			Repo: at.Repo, Dir: filepath.Join(at.Dir, "stack"), HostProcess: host,
			Ready: func(u, t string) {
				url, token = u, t
				ready(u)
			},
		})
	}
	return h, nil
}

// at is the environment of a command that the demo runs for the person: on its
// own repository and state, with nothing to read.
func (e *Env) at(at demo.Place, out, errs io.Writer) *Env {
	sub := *e
	sub.In, sub.Out, sub.Err, sub.Dir = strings.NewReader(""), out, errs, at.Repo
	sub.json, sub.lines = false, nil
	sub.Piped = func() bool { return false }
	sub.TTY = func(s any) bool { return s == e.Out && e.TTY(s) }
	sub.Getenv = func(name string) string {
		switch name {
		case names.EnvHome:
			return at.Home
		case names.EnvTarget, names.EnvToken:
			return ""
		}
		return e.Getenv(name)
	}
	sub.Environ = func() []string { return withEnv(e.Environ(), names.EnvHome, at.Home) }
	return &sub
}
