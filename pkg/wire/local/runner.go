package local

import (
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/process"
)

// newRunner runs supervisors as processes of this machine.
func newRunner(o Options, target func() string, exited func(string, runner.Report)) *process.Runner {
	return process.New(process.Config{
		BinPath: o.Bin, StateDir: o.Paths.Dir, Target: target, Now: o.Now, Log: o.Log, OnExit: exited,
		After: o.After, CrashPoint: o.CrashPoint,
	})
}
