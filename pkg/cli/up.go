package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/config"
)

func (e *Env) upCommand() *cobra.Command {
	var port int
	var host, detached bool
	c := &cobra.Command{
		Use:   "up",
		Short: "Run this project's control plane in the foreground",
		Long: "up runs the control plane of the project you are in until Ctrl-C. Other commands start it by\n" +
			"themselves when they need it; run it here to watch it, or to choose how agents run.",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return usage(c, "--port expects 1 to 65535, got %d", port)
			}
			return e.up(c.Context(), port, host, detached)
		},
	}
	c.Flags().IntVar(&port, "port", 0, "port to listen on; the first free one from 26024 by default")
	c.Flags().BoolVar(&host, "host-process", false, "run agents without a sandbox: they can do whatever you can")
	c.Flags().BoolVar(&detached, "detached", false, "started by another command")
	_ = c.Flags().MarkHidden("detached")
	return c
}

func (e *Env) up(ctx context.Context, port int, host, detached bool) (err error) {
	p, err := e.paths()
	if err != nil {
		return err
	}
	if detached {
		_ = os.Remove(startFailureFile(p))
		defer func() {
			if err != nil {
				saveStartFailure(p, err)
			}
		}()
	}
	project, err := config.LoadProject(p.Config())
	if err != nil {
		return err
	}
	if plane, ok, err := e.alive(ctx, p); err != nil {
		return err
	} else if ok {
		return e.printf("The control plane of %s is running already: %s (pid %d).\n", clean(p.Root), line(plane.URL), plane.PID)
	}
	if host {
		e.note("agents run WITHOUT a sandbox: an agent can do whatever you can, here and on the network")
	}
	err = e.Up(ctx, UpOptions{
		Paths: p, Project: project, Port: port, HostProcess: host, Version: e.Version,
		Missing: e.warnUnconfigured,
		Ready: func(url string) {
			_ = e.printf("The control plane of %s listens on %s\n", clean(p.Root), line(url))
			if !detached {
				_ = e.printf("Stop it with Ctrl-C; running agents go on and are found again.\n")
			}
		},
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}
