package crash

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/agentcli"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// upWord starts this binary as a control plane.
const upWord = "crash-up"

// Main turns the process into the part of the product that its command line asks
// for, and does not return then. A test binary calls it before anything else.
func Main() {
	switch {
	case strings.HasPrefix(filepath.Base(os.Args[0]), names.AgentBinary):
		os.Exit(agent(os.Args[1:]))
	case len(os.Args) == 4 && os.Args[1] == upWord:
		if err := plane(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "crash:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// agent is lazy-agent as cmd/lazy-agent makes it, with a hook.
func agent(argv []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := agentcli.Program{
		Version: "test", Catalogue: op.Default, Find: drivers.Find, Now: time.Now, NewID: id.Gen{Rand: rand.Reader}.New,
	}
	if dir := runDir(argv); dir != "" {
		p.Crash = counting(filepath.Join(dir, "..", "..", "..", folder), "sup")
	}
	return p.Main(ctx, argv, os.Getenv, agentcli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// runDir is the folder of the run a supervisor is started for.
func runDir(argv []string) string {
	for i, a := range argv {
		if a == "--protocol-dir" && i+1 < len(argv) {
			return argv[i+1]
		}
	}
	return ""
}

// plane is what `lazy up` runs, with a hook and a clock.
func plane(home, root string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	paths, err := config.PathsIn(home, root)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir := filepath.Join(paths.Dir, folder)
	k := newClock(dir)
	_, host := os.LookupEnv("LAZY_CRASH_HOST")
	p, err := local.Up(ctx, local.Options{
		Paths: paths, Bin: self, HostProcess: host, Version: "test", Now: k.Now, After: k.After,
		CrashPoint: counting(dir, "plane"), Log: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	p.Wait(ctx)
	return p.Close()
}
