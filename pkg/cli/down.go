package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// stopPatience is how long a control plane may take to end.
const stopPatience = 30 * time.Second

func (e *Env) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop this project's control plane",
		Long: "down stops the control plane of the project you are in. Nothing is lost: tasks are as they were\n" +
			"at the next command, and an agent that is running goes on and is found again.",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if e.elsewhere() != "" {
				return refusal.Of(refusal.LocalOnly, "`lazy down`")
			}
			p, err := e.paths()
			if err != nil {
				return err
			}
			was, err := e.down(c.Context(), p)
			if err != nil {
				return err
			}
			if !was {
				return e.printf("No control plane of %s is running.\n", clean(p.Root))
			}
			return e.printf("The control plane of %s has stopped.\n", clean(p.Root))
		},
	}
}

// down stops the project's control plane and waits until it is gone. It reports
// whether one was running.
func (e *Env) down(ctx context.Context, p config.Paths) (bool, error) {
	plane, ok, err := e.alive(ctx, p)
	if err != nil || !ok {
		return false, err
	}
	if err := e.shutdown(ctx, p, plane); err != nil {
		return true, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopPatience, errNotDown)
	defer cancel()
	for pause := lookFirst; ; {
		if now, ok, _ := config.ReadPlane(p.Plane()); !ok || now.PID != plane.PID || !now.Started.Equal(plane.Started) {
			return true, nil // it takes its file away last
		}
		if _, err := e.look(ctx, plane.URL); err != nil && ctx.Err() == nil && !e.Alive(plane.PID) {
			return true, nil
		}
		if err := sleep(ctx, &pause); err != nil {
			if errors.Is(err, errNotDown) {
				return true, fault.Wrap(fault.Failed, err, "the control plane (pid %d) was told to stop and is still there after %s", plane.PID, span(stopPatience)).
					WithNext("Look at " + p.Log() + ".")
			}
			return true, err
		}
	}
}

// shutdown tells a control plane to end, as its owner.
func (e *Env) shutdown(ctx context.Context, p config.Paths, plane config.Plane) error {
	token, err := e.owner(p)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, plane.URL+"/daemon/shutdown", http.NoBody)
	if err != nil {
		return fmt.Errorf("stop %s: %w", plane.URL, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := lookClient().Do(req)
	if err != nil {
		return fmt.Errorf("stop %s: %w", plane.URL, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fault.New(fault.FromHTTP(resp.StatusCode), "the control plane at %s refused to stop (status %d)", plane.URL, resp.StatusCode)
	}
	return nil
}

var errNotDown = errors.New("the control plane did not end in time")
