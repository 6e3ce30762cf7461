// Command serve brings the emulated stack up for a project, prints where it
// answers and a person's token as one line of JSON, and ends with its standard
// input.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/pkg/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o emulated.Options
	source := flag.String("source", ".", "the source tree to build the programs from")
	repo := flag.String("repo", "", "the repository whose configuration the project gets")
	flag.StringVar(&o.Dir, "dir", "", "the folder of everything the stack keeps")
	flag.BoolVar(&o.Host, "host-process", false, "run agents without a sandbox")
	flag.Parse()
	if err := serve(ctx, *source, *repo, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sweep is how often the clock comes; deployed it is every minute.
const sweep = 5 * time.Second

func serve(ctx context.Context, source, repo string, o emulated.Options) error {
	text, err := os.ReadFile(filepath.Join(repo, config.File))
	if err != nil {
		return err
	}
	log, err := logFile(o.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	o.Config, o.Tenant, o.Project, o.Email, o.Name = string(text), "demo", "demo", "demo@example.invalid", "Demo"
	o.Bin, o.Sweep, o.Log = filepath.Join(o.Dir, "bin"), sweep, log
	if err := emulated.Build(ctx, source, o.Bin); err != nil {
		return err
	}
	s, err := emulated.Up(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"url": s.URL, "token": s.Token}); err != nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
	return nil
}

func logFile(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, "stack.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
