// Command lazy-agent is the full program under both of its names: called lazy it
// is what people run, called lazy-agent it is what serves and runs agents.
package main

import (
	"context"
	"crypto/rand"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/agentcli"
	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if strings.HasPrefix(filepath.Base(os.Args[0]), names.AgentBinary) {
		os.Exit(agentcli.Program{
			Version: version, Revision: build().Revision, Catalogue: op.Default, Find: drivers.Find, Now: time.Now,
			NewID: id.Gen{Rand: rand.Reader}.New,
		}.Main(ctx, os.Args[1:], os.Getenv, agentcli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(cli.Main(ctx, host(), os.Args[1:]))
}
