package local

import (
	"context"
	"runtime"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
	"github.com/lazyplane/lazyplane/pkg/sandbox/bwrap"
	"github.com/lazyplane/lazyplane/pkg/sandbox/seatbelt"
)

// Probe says why agents cannot be contained on this machine; nil when they can.
func Probe(ctx context.Context) error {
	switch runtime.GOOS {
	case "linux":
		r, err := bwrap.Find(ctx)
		if err != nil {
			return err
		}
		return r.Probe(ctx)
	case "darwin":
		return seatbelt.Renderer{}.Probe(ctx)
	}
	return fault.New(fault.Unavailable, "there is no sandbox for agents on %s", runtime.GOOS).WithNext(sandbox.HostProcess)
}
