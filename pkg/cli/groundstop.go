package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/op"
)

func (e *Env) groundStopCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ground-stop",
		Short: "Stop every agent from calling its model, and release that",
		Long: "A ground stop starts nothing and ends every running turn at its next model call, within 30 seconds.\n" +
			"Nothing passes it, and only a person releases it. To let running work finish: lazy drain.",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	reason, cut := "", false
	engage := e.gateCommand("engage", "Stop the project now, also where no control plane answers", "engageGroundStop",
		func() args { return args{"reason": reason}.with("cut_off", cut) })
	engage.Flags().StringVar(&reason, "reason", "stopped by hand", "why; every refusal says so")
	engage.Flags().BoolVar(&cut, "cut-off", false, "end running turns at once, not at their next model call")
	call := engage.RunE
	engage.RunE = func(c *cobra.Command, words []string) error {
		done, err := e.stopByFile(c.Context(), reason)
		if done || err != nil {
			return err
		}
		return call(c, words)
	}
	c.AddCommand(engage,
		e.gateCommand("release", "Let turns start and models be called again", "releaseGroundStop", func() args { return args{} }),
		e.gateCommand("status", "Say what is in force and which running turns have heard of it", "groundStopStatus", func() args { return args{} }))
	return c
}

func (e *Env) drainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "drain",
		Short: "Let running turns finish and start none",
		Args:  exactly(),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	reason := ""
	on := e.gateCommand("on", "Start no turn any more", "setDrain", func() args { return args{"on": true}.with("reason", reason) })
	on.Flags().StringVar(&reason, "reason", "", "why")
	c.AddCommand(on, e.gateCommand("off", "Start turns again", "setDrain", func() args { return args{"on": false} }))
	return c
}

// gateCommand is one act on the flags of the project. It prints what is in force.
func (e *Env) gateCommand(name, doc, command string, in func() args) *cobra.Command {
	tenant := false
	c := &cobra.Command{
		Use: name, Short: doc, Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			a := in()
			if tenant {
				a["scope"] = "tenant"
			}
			raw, err := e.call(c.Context(), command, a)
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.GateState) error {
				text := flagsText(e, out.Stop, out.Drain)
				if text == "" {
					text = "Neither a ground stop nor a drain is in force.\n"
				}
				for _, r := range out.Running {
					if out.Stop != nil {
						text += "  " + ackText(r) + "\n"
					} else {
						text += "  " + line(r.Code) + " runs\n"
					}
				}
				return e.printf("%s", text)
			})
		},
	}
	if command != "groundStopStatus" {
		c.Flags().BoolVar(&tenant, "tenant", false, "for all projects of the team")
	}
	e.jsonFlag(c)
	return c
}

// stopByFile engages a ground stop of this project where no control plane answers:
// by a file that the next one finds, so that nothing starts in between (GN-01).
func (e *Env) stopByFile(ctx context.Context, reason string) (bool, error) {
	if e.elsewhere() != "" {
		return false, nil
	}
	p, err := e.paths()
	if err != nil {
		return false, err
	}
	if _, alive, err := e.alive(ctx, p); alive || err != nil {
		return false, err
	}
	b, err := json.Marshal(map[string]any{"reason": line(reason), "at": e.Now().UTC()})
	if err != nil {
		return false, fmt.Errorf("write ground stop: %w", err)
	}
	if err := config.WritePrivate(p.GroundStop(), append(b, '\n')); err != nil {
		return false, err
	}
	return true, e.printf("No control plane runs. The ground stop lies in %s: the next one starts nothing.\nRelease it: lazy ground-stop release\n", clean(p.GroundStop()))
}

// flagsText says which of the two is in force, since when and by whom.
func flagsText(e *Env, stop, drain *op.Flag) string {
	var b strings.Builder
	for _, f := range []struct {
		name string
		flag *op.Flag
	}{{"GROUND STOP", stop}, {"DRAINING", drain}} {
		if f.flag == nil {
			continue
		}
		b.WriteString(f.name + " of this " + line(f.flag.Scope) + " by " + line(f.flag.ByText) + ", " + e.ago(f.flag.At))
		if f.flag.Reason != "" {
			b.WriteString(": " + line(f.flag.Reason))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func ackText(r op.RunAck) string {
	if r.Acknowledged {
		return line(r.Code) + " has heard of it: it calls no model any more"
	}
	return line(r.Code) + " has not acknowledged it yet"
}
