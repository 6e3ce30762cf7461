// Command build makes the supervisor's image by its recipe and looks inside, on a
// machine without Docker: buildah builds, and what the recipe is made from is
// stood in for by a Debian of the same release, which mmdebstrap makes. Then it
// runs what the task definition of a run says, with its root read-only and its
// capabilities, in bubblewrap. With -runtime the recipe for agents is built too,
// which takes minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	runtime := flag.Bool("runtime", false, "build the recipe for agents as well")
	cache := flag.String("cache", "", "folder that keeps the Debian between two runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *runtime, *cache)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		if errors.Is(err, errMachine) {
			os.Exit(75)
		}
		os.Exit(1)
	}
}

// errMachine means that this machine, or what it reaches, is in the way, and not
// the recipes. The command then ends with 75.
var errMachine = errors.New("no images can be built here")

func run(ctx context.Context, runtime bool, cache string) (err error) {
	for _, tool := range []string{"buildah", "mmdebstrap", "bwrap", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			return errors.Join(errMachine, fmt.Errorf("%s is missing: %w", tool, err))
		}
	}
	dir, err := os.MkdirTemp("", "images-")
	if err != nil {
		return err
	}
	s := &shop{ctx: ctx, dir: dir, began: time.Now()}
	defer s.close()
	if cache == "" {
		cache = dir
	}
	base := filepath.Join(cache, "debian-"+suite+".tar")
	if _, err := os.Stat(base); err != nil {
		if err := s.debian(base); err != nil {
			return errors.Join(errMachine, err)
		}
	}
	if err := s.standIns(base); err != nil {
		return errors.Join(errMachine, err) // nothing of the recipes is in them
	}
	if err := s.supervisor(); err != nil {
		return err
	}
	agents := debianImage // any image will do for an agent's container
	if runtime {
		if agents, err = s.runtime(); err != nil {
			return err
		}
	}
	return s.try(agents)
}
