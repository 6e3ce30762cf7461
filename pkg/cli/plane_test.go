package cli_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/agentcli"
	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// TestMain lets the test binary be the agent's program too: supervisors and the
// tools of agents run as processes of their own, as they do for people.
func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), names.AgentBinary) {
		os.Exit(agentcli.Program{
			Version: "1.2.3", Catalogue: op.Default, Find: drivers.Find, Now: time.Now, NewID: id.Gen{Rand: rand.Reader}.New,
		}.Main(context.Background(), os.Args[1:], os.Getenv, agentcli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

// up is the real control plane. Agents run without a sandbox, which has tests of
// its own and is not on every machine, unless the script asks for one.
func up(ctx context.Context, m *machine, o cli.UpOptions) error {
	if why := m.get("up"); why != "" {
		return fault.New(fault.Failed, "%s", why).WithNext("Do something about it.")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := local.Up(ctx, local.Options{
		Paths: o.Paths, Bin: self, HostProcess: m.get("contained") == "", Version: o.Version, Port: o.Port,
	})
	if err != nil {
		return err
	}
	if o.Missing != nil {
		missing, err := p.Unconfigured(ctx, o.Model)
		if err != nil {
			return errors.Join(err, p.Close())
		}
		o.Missing(missing)
	}
	o.Ready(p.URL)
	p.Wait(ctx)
	return p.Close()
}
