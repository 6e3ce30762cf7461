package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/agent/install"
	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/login"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// version is set when a release is built.
var version = "dev"

// host is the machine as commands see it.
func host() *cli.Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return &cli.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Now: time.Now,
		Dir: dir, TempDir: os.TempDir(), Self: self, Version: version, Build: build(),
		TTY: terminal, Piped: piped, Width: width, Masked: masked,
		Exec: foreground, Session: session, Output: output, LookPath: exec.LookPath,
		Detach: cli.DetachProcess, Alive: cli.ProcessAlive, Lock: cli.FileLock, Keys: login.System{Patience: 3 * time.Second},
		Up: up, Emulate: emulate, Probe: probe, Protect: protect, Agents: agents, Own: local.Own,
	}
}

// agents looks for the CLIs that there are drivers for.
func agents() []cli.AgentCLI {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	var all []cli.AgentCLI
	for _, d := range drivers.Installed() {
		a := cli.AgentCLI{ID: d.ID(), Get: d.Install().Get, Service: d.Provider("")}
		if f, err := install.Find(d.Install(), home); err == nil {
			a.Found = f.Command
		}
		all = append(all, a)
	}
	return all
}

func build() cli.Build {
	b := cli.Build{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// piped reports whether standard input is a pipe or a file: something whose end
// will come without a person.
func piped() bool {
	info, err := os.Stdin.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

// masked reads a line from the terminal with its echo off. An interrupt while it
// is off would leave the person's terminal that way, so it is put back first.
func masked(question string) (string, error) {
	fmt.Fprint(os.Stderr, question)
	fd := int(os.Stdin.Fd())
	was, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("read the terminal: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	type answer struct {
		text []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		b, err := term.ReadPassword(fd)
		got <- answer{b, err}
	}()
	select {
	case a := <-got:
		fmt.Fprintln(os.Stderr)
		if a.err != nil {
			return "", fmt.Errorf("read the terminal: %w", a.err)
		}
		return string(a.text), nil
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr)
		return "", errors.Join(context.Canceled, term.Restore(fd, was))
	}
}

func width() int {
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

func foreground(ctx context.Context, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func session(ctx context.Context, argv, env []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, env
	return cmd.Run()
}

func output(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if said := strings.TrimSpace(errs.String()); said != "" {
			return "", fmt.Errorf("%s: %s", argv[0], said)
		}
		return "", errors.Join(err)
	}
	return out.String(), nil
}
