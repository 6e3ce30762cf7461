package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// emulate runs the hosted stack on this machine until ctx ends. It is a program of
// the source tree: what people install has no part of it.
func emulate(ctx context.Context, o cli.EmulateOptions) error {
	_, file, _, _ := runtime.Caller(0)
	source := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(source, "integration", "emulated")); err != nil || !filepath.IsAbs(file) {
		return fault.New(fault.Failed, "the emulated stack is built from the source tree, which is not there").
			WithNext("Run `go run ./cmd/lazy demo --stack emulated` in a checkout.")
	}
	args := []string{"run", "./integration/emulated/serve", "-source", source, "-repo", o.Repo, "-dir", o.Dir}
	if o.HostProcess {
		args = append(args, "-host-process")
	}
	cmd := exec.CommandContext(ctx, goTool(), args...)
	cmd.Dir = source
	cmd.Cancel = func() error { return nil } // it ends with its standard input
	ownGroup(cmd)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fault.Wrap(fault.Failed, err, "the go command, which builds the emulated stack, cannot be run")
	}
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer stop()
	var at struct{ URL, Token string }
	line, _ := bufio.NewReader(out).ReadBytes('\n')
	if json.Unmarshal(line, &at) == nil && at.URL != "" {
		o.Ready(at.URL, at.Token)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Wrap(fault.Failed, err, "the emulated stack ended: %s", strings.TrimSpace(errs.String()))
}

// goTool is the go command, on the path or where it usually lies.
func goTool() string {
	if path, err := exec.LookPath("go"); err == nil {
		return path
	}
	return "/usr/local/go/bin/go"
}
