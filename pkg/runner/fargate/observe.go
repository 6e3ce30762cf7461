package fargate

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/runner"
)

// Observe reports what ECS says of a run. Gone is STOPPED, or unknown to ECS under
// an ARN that we recorded and that it has had the time to know (SY-043). An ECS
// that does not answer says nothing about the run (B25).
func (r *Runner) Observe(ctx context.Context, ref string) (runner.Report, error) {
	arn, k, err := parseRef(ref)
	if err != nil {
		return runner.Report{}, err
	}
	out, err := r.api.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &r.c.Cluster, Tasks: []string{arn}})
	if err != nil {
		if fault.KindOf(refused(ctx, err)) == fault.Unavailable {
			return runner.Report{Sight: runner.Unclear, Reason: "ECS does not answer"}, nil
		}
		return runner.Report{}, refused(ctx, err)
	}
	for _, t := range out.Tasks {
		if aws.ToString(t.TaskArn) == arn {
			return seen(t), nil
		}
	}
	for _, f := range out.Failures {
		if aws.ToString(f.Reason) != "MISSING" {
			return runner.Report{Sight: runner.Unclear, Reason: "ECS answers " + aws.ToString(f.Reason)}, nil
		}
	}
	i, ok, err := r.load(ctx, k)
	if err != nil {
		return runner.Report{}, err
	}
	if !ok || i.ARN != arn {
		return runner.Report{Sight: runner.Unclear, Reason: "ECS does not know the task, and neither do we"}, nil
	}
	if r.c.Now().Sub(i.At) < forgotten {
		return runner.Report{Sight: runner.Unclear, Reason: "ECS does not know the task yet"}, nil
	}
	return runner.Report{
		Sight: runner.Gone, ExitCode: -1,
		Reason: "ended long enough ago for ECS to have forgotten it",
	}, nil
}

func seen(t types.Task) runner.Report {
	if aws.ToString(t.LastStatus) != "STOPPED" {
		return runner.Report{Sight: runner.Alive, Reason: aws.ToString(t.LastStatus)}
	}
	return Ended(t)
}

// List reports every task under our tag that has not ended.
func (r *Runner) List(ctx context.Context) ([]runner.Seen, error) {
	var all []runner.Seen
	err := r.each(ctx, func(t types.Task) error {
		if _, task, epoch, ok := ParseTag(aws.ToString(t.StartedBy)); ok {
			all = append(all, runner.Seen{Short: task.Short(), Epoch: epoch, Sight: runner.Alive})
		}
		return nil
	})
	return all, err
}

// StopOverdue stops every task under our tag that is older than a run may be, and
// returns their references: whatever failed to end them, nothing costs money for
// ever (SY-047).
func (r *Runner) StopOverdue(ctx context.Context) (refs []string, err error) {
	now := r.c.Now()
	err = r.each(ctx, func(t types.Task) error {
		tag := aws.ToString(t.StartedBy)
		if _, _, _, ok := ParseTag(tag); !ok || t.CreatedAt == nil || now.Sub(*t.CreatedAt) <= r.c.MaxAge+overdueGrace {
			return nil
		}
		if err := r.stop(ctx, aws.ToString(t.TaskArn), "beyond the maximum age of a run"); err != nil {
			return err
		}
		refs = append(refs, refOf(aws.ToString(t.TaskArn), tag))
		return nil
	})
	return refs, err
}

// overdueGrace leaves the supervisor's own end at its maximum age the first word.
const overdueGrace = 10 * time.Minute

// each goes through the running tasks of the cluster.
func (r *Runner) each(ctx context.Context, visit func(types.Task) error) error {
	in := &ecs.ListTasksInput{Cluster: &r.c.Cluster, DesiredStatus: types.DesiredStatusRunning}
	for {
		page, err := r.api.ListTasks(ctx, in)
		if err != nil {
			return refused(ctx, err)
		}
		if len(page.TaskArns) > 0 {
			out, err := r.api.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &r.c.Cluster, Tasks: page.TaskArns})
			if err != nil {
				return refused(ctx, err)
			}
			for _, t := range out.Tasks {
				if aws.ToString(t.LastStatus) == "STOPPED" {
					continue
				}
				if err := visit(t); err != nil {
					return err
				}
			}
		}
		if aws.ToString(page.NextToken) == "" {
			return nil
		}
		in.NextToken = page.NextToken
	}
}
