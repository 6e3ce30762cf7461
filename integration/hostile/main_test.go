//go:build linux

// Package hostile attacks the product with everything a repository or an agent
// can bring, one file of the corpus per attack, and shows for each that honest
// work of the same kind goes on (README.md).
package hostile

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agentcli"
	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// TestMain makes the test's own binary all the programs there are: supervisors,
// helpers and what people type are real processes of the real code.
func TestMain(m *testing.M) {
	ctx := context.Background()
	switch base := filepath.Base(os.Args[0]); {
	case base == "probe":
		os.Exit(probe(os.Args[1:]))
	case strings.HasPrefix(base, names.AgentBinary):
		if len(os.Args) > 1 && os.Args[1] == "probe" {
			os.Exit(probe(os.Args[2:]))
		}
		os.Exit(agentcli.Program{
			Version: "test", Catalogue: op.Default, Find: findDriver, Now: time.Now, NewID: id.Gen{Rand: rand.Reader}.New,
		}.Main(ctx, os.Args[1:], os.Getenv, agentcli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	case base == "lazy":
		os.Exit(cli.Main(ctx, person(), os.Args[1:]))
	}
	// What a person keeps in the environment of the shell that started everything.
	if err := os.Setenv("AWS_SECRET_ACCESS_KEY", "canary-environment"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// person is the machine as a person's commands see it.
func person() *cli.Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	return &cli.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Now: time.Now,
		Dir: dir, TempDir: os.TempDir(), Self: os.Args[0], Version: "test",
		Build: cli.Build{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH},
		TTY:   func(any) bool { return os.Getenv("FAKE_TTY") != "" }, Piped: func() bool { return os.Getenv("FAKE_PIPE") != "" }, Width: func() int { return 100 },
		Exec: func(ctx context.Context, argv []string) error {
			c := exec.CommandContext(ctx, argv[0], argv[1:]...)
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			return c.Run()
		},
		Output: func(ctx context.Context, dir string, argv ...string) (string, error) {
			c := exec.CommandContext(ctx, argv[0], argv[1:]...)
			c.Dir = dir
			var errs bytes.Buffer
			c.Stderr = &errs
			out, err := c.Output()
			if err != nil {
				return "", fmt.Errorf("%s: %s", argv[0], strings.TrimSpace(errs.String()))
			}
			return string(out), nil
		},
		LookPath: exec.LookPath, Alive: cli.ProcessAlive, Lock: cli.FileLock,
		Detach: func([]string, []string, string, string) error { return errors.New("no plane is started here") },
		Up:     func(context.Context, cli.UpOptions) error { return errors.New("no plane is started here") },
		Probe:  local.Probe,
	}
}
