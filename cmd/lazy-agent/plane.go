package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
	"github.com/lazyplane/lazyplane/pkg/wire/local"
)

// up runs a project's control plane in this process until ctx ends or its owner
// tells it to stop. Runs that are under way go on and are found again.
func up(ctx context.Context, o cli.UpOptions) error {
	log, err := openLog(o.Paths.Log())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	self, err := os.Executable()
	if err != nil {
		return fault.Wrap(fault.Failed, err, "this program cannot find itself, and agents need it")
	}
	p, err := local.Up(ctx, local.Options{
		Paths: o.Paths, Bin: self, Port: o.Port, HostProcess: o.HostProcess, Version: o.Version, Credentials: o.Credentials,
		SourceID: build().Revision, CodeSHA: build().Revision,
		Log: telemetry.New(log, telemetry.Options{}),
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

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fault.Wrap(fault.Failed, err, "there is no place for the log %s", path)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.Failed, err, "the log %s cannot be written", path)
	}
	return f, nil
}

// protect reports what contains agents here; why nothing does is the probe's.
func protect(ctx context.Context) []cli.Protection {
	all, err := local.Protections(ctx)
	if err != nil {
		return nil
	}
	out := make([]cli.Protection, len(all))
	for i, p := range all {
		out[i] = cli.Protection(p)
	}
	return out
}

// probe says why agents cannot be sandboxed here.
func probe(ctx context.Context) error { return local.Probe(ctx) }
