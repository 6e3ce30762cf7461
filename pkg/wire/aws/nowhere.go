package aws

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/runner"
)

// nowhere is the runner of a function that starts and watches no runs.
type nowhere struct{}

var _ runner.Runner = nowhere{}

func (nowhere) none() error {
	return fault.New(fault.Unavailable, "this control plane has no place to run agents")
}

func (n nowhere) Launch(context.Context, runner.Spec) (string, error) { return "", n.none() }

func (n nowhere) Find(context.Context, id.Task, int64) (string, bool, error) {
	return "", false, n.none()
}

func (n nowhere) Observe(context.Context, string) (runner.Report, error) {
	return runner.Report{}, n.none()
}

func (n nowhere) Stop(context.Context, string, string) error { return n.none() }
