package cli

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// keptAt says whose credentials were meant; zero means those of the place the command
// is run in.
type keptAt struct {
	here bool // this machine's
	host string
}

// keeper finds what keeps the credentials that a command is about. A project's are
// kept by its control plane. Outside of any, a person has those of this machine and
// those at each control plane they are signed in to: with more than one to choose
// from nothing is guessed, since a secret would go where nobody meant it to.
func (e *Env) keeper(c *cobra.Command, at keptAt) (func(command string, in args) (json.RawMessage, error), error) {
	ctx := c.Context()
	through := func(cl Client) func(string, args) (json.RawMessage, error) {
		return func(command string, in args) (json.RawMessage, error) { return raw(ctx, cl, command, in) }
	}
	switch {
	case at.here && at.host != "":
		return nil, usage(c, "--local and --host name two places; give one of them")
	case at.host != "":
		l, err := e.signInAt(at.host, "")
		if err != nil {
			return nil, err
		}
		cl, err := e.signedIn(l)
		return through(cl), err
	case !at.here:
		cl, err := e.client(ctx)
		if err == nil || !e.nowhere(err) {
			return through(cl), err
		}
		v, err := e.vault()
		if err != nil {
			return nil, err
		}
		all, err := v.List("")
		if err != nil {
			return nil, err
		}
		if len(all) > 0 {
			return nil, severalKeepers(c, all[0].Address)
		}
	}
	if err := e.inContainer("`" + c.CommandPath() + "`"); err != nil {
		return nil, err
	}
	home, err := config.Home(e.Getenv)
	if err != nil {
		return nil, err
	}
	if e.Own == nil {
		return nil, refusal.Of(refusal.NotBound)
	}
	return func(command string, in args) (json.RawMessage, error) { return e.Own(ctx, home, command, in) }, nil
}

func severalKeepers(c *cobra.Command, address string) error {
	verb := strings.TrimSpace(c.CommandPath())
	return fault.New(fault.Invalid, "no project is in charge here, and you have credentials on this machine and at a control plane; nothing was done").
		WithNext("For those of this machine: " + verb + " --local").
		WithNext("For your own at the control plane: " + verb + " --host " + address)
}
