package bootstrap

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

// become runs the program as a child and takes over its exit code. A console
// sends Ctrl-C to both, so the parent only has to outlive it.
func become(path string, argv, environ []string) (int, error) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt)
	defer signal.Stop(caught)

	cmd := &exec.Cmd{Path: path, Args: argv, Env: environ, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// private has nothing to check: the temporary directory belongs to one user.
func private(string) error { return nil }
