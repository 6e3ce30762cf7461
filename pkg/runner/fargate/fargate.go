// Package fargate is the hosted runner: a run is one ECS task on Fargate, with the
// supervisor and the agent in two containers. Its own record of a launch is
// written before anything is started, so that a launcher that dies at any point
// leaves nothing that a later one could start twice or not find (B24).
package fargate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// Limits of RunTask, and what this runner makes of them.
const (
	// MaxOverrides is the most bytes that ECS takes for the overrides of a launch.
	MaxOverrides = 8192
	// forgotten is how long ECS may not know a task yet that it has just started:
	// its reads lag behind its writes.
	forgotten = 5 * time.Minute
	maxReason = 255
)

// Config is what a runner needs to know of the deployment.
type Config struct {
	Cluster        string
	Subnets        []string
	SecurityGroups []string
	PublicIP       bool // in a public subnet: there is no NAT gateway to pay for
	// Image returns the project's image by digest; a tag could be another image
	// tomorrow.
	Image func(ctx context.Context, s runner.Spec) (string, error)
	Task  Definition
	// Spot asks for spare capacity first and falls back to what is always there.
	Spot   bool
	MaxAge time.Duration // beyond it, a task is stopped whatever it says
	Target string        // address a supervisor calls
	Now    func() time.Time
}

// Runner starts and watches ECS tasks. It is safe for concurrent use.
type Runner struct {
	api *ecs.Client
	db  store.Store
	c   Config
}

var (
	_ runner.Runner = (*Runner)(nil)
	_ runner.Finder = (*Runner)(nil)
	_ runner.Lister = (*Runner)(nil)
)

// New returns a runner.
func New(api *ecs.Client, db store.Store, c Config) *Runner { return &Runner{api: api, db: db, c: c} }

// intent is the runner's record of a launch.
type intent struct {
	Tag        string    `json:"tag"`
	Definition string    `json:"definition"`
	Capacity   string    `json:"capacity"`
	Try        int       `json:"try"`
	ARN        string    `json:"arn,omitempty"`
	At         time.Time `json:"at"`
	Version    int64     `json:"version"`
	Missed     int       `json:"missed,omitempty"` // look-ups that found nothing once ECS had the time to list it
}

const (
	spot     = "FARGATE_SPOT"
	onDemand = "FARGATE"
)

// token makes asking ECS again the same request. Another try is another request.
func (i intent) token() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", i.Tag, i.Try))
	return hex.EncodeToString(sum[:])[:64]
}

// TagOf is what a task is found by, in its startedBy.
func TagOf(tenant string, task id.Task, epoch int64) string {
	return tenant + "/" + string(task) + "/" + strconv.FormatInt(epoch, 10)
}

// ParseTag takes a startedBy apart; ok is false for a task of somebody else.
func ParseTag(tag string) (tenant string, task id.Task, epoch int64, ok bool) {
	p := strings.Split(tag, "/")
	if len(p) != 3 || p[0] == "" || !id.IsTask(p[1]) {
		return "", "", 0, false
	}
	n, err := strconv.ParseInt(p[2], 10, 64)
	if err != nil || n < 0 || TagOf(p[0], id.Task(p[1]), n) != tag {
		return "", "", 0, false
	}
	return p[0], id.Task(p[1]), n, true
}

// A reference is the task's ARN with our tag, which leads to the intent.
func refOf(arn, tag string) string { return arn + " " + tag }

func parseRef(ref string) (arn string, k store.Key, err error) {
	arn, tag, _ := strings.Cut(ref, " ")
	tenant, task, epoch, ok := ParseTag(tag)
	if !ok || !strings.HasPrefix(arn, "arn:") {
		return "", store.Key{}, fault.New(fault.Invalid, "%q is not a reference of a run", ref)
	}
	return arn, store.For(tenant).Task(task).Launch(epoch), nil
}

// Launch starts the task of a run, once.
func (r *Runner) Launch(ctx context.Context, s runner.Spec) (string, error) {
	k := store.For(s.Tenant).Task(s.Task).Launch(s.Epoch)
	i, ok, err := r.load(ctx, k)
	if err != nil {
		return "", err
	}
	if !ok {
		if i, err = r.intend(ctx, k, s); err != nil {
			return "", err
		}
	}
	if i.ARN == "" && i.Missed > 0 {
		// What is asked for now has its own time to be listed.
		i.At, i.Missed = r.c.Now(), 0
		if i, err = r.save(ctx, k, i); err != nil {
			return "", err
		}
	}
	for i.ARN == "" {
		arn, err := r.run(ctx, s, i)
		if full := (*capacityError)(nil); errors.As(err, &full) && i.Capacity == spot {
			// Nothing was started: another try is another request.
			i.Capacity, i.Try = onDemand, i.Try+1
			if i, err = r.save(ctx, k, i); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", err
		}
		i.ARN = arn
		if i, err = r.save(ctx, k, i); err != nil {
			return "", err
		}
	}
	return refOf(i.ARN, i.Tag), nil
}

// intend writes down what is about to be started.
func (r *Runner) intend(ctx context.Context, k store.Key, s runner.Spec) (intent, error) {
	var in *ecs.RegisterTaskDefinitionInput
	if s.Broker {
		in = r.c.Task.broker()
	} else {
		image, err := r.c.Image(ctx, s)
		if err != nil {
			return intent{}, err
		}
		in = r.c.Task.input(image)
	}
	def, err := r.define(ctx, in)
	if err != nil {
		return intent{}, err
	}
	i := intent{Tag: TagOf(s.Tenant, s.Task, s.Epoch), Definition: def, Capacity: onDemand, At: r.c.Now()}
	if len(i.Tag) > 128 {
		return intent{}, fault.New(fault.Invalid, "the tenant's name is too long to tag a run with")
	}
	// A broker lives for a minute that somebody waits for.
	if r.c.Spot && !s.Broker {
		i.Capacity = spot
	}
	return r.save(ctx, k, i)
}

func (r *Runner) load(ctx context.Context, k store.Key) (intent, bool, error) {
	it, err := r.db.Get(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return intent{}, false, nil
	}
	if err != nil {
		return intent{}, false, fmt.Errorf("read launch: %w", err)
	}
	var i intent
	if err := json.Unmarshal(it.Doc, &i); err != nil {
		return intent{}, false, fmt.Errorf("read launch: %w", err)
	}
	return i, true, nil
}

// save writes an intent on condition that nobody else did meanwhile. Whoever came
// first is returned: two launchers of one run go on from one record.
func (r *Runner) save(ctx context.Context, k store.Key, i intent) (intent, error) {
	cond := store.Absent()
	if i.Version > 0 {
		cond = store.VersionIs(i.Version)
	}
	i.Version++
	doc, err := json.Marshal(i)
	if err != nil {
		return i, fmt.Errorf("write launch: %w", err)
	}
	err = r.db.Transact(ctx, store.Write{Act: store.Put, If: []store.Cond{cond}, Item: store.Item{
		Key: k, Doc: doc, Attr: store.Attr{store.AttrType: "launch", store.AttrVersion: i.Version},
	}})
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		now, ok, err := r.load(ctx, k)
		if err == nil && !ok {
			err = fault.New(fault.Unavailable, "the record of this launch was removed meanwhile")
		}
		return now, err
	}
	if err != nil {
		return i, fmt.Errorf("write launch: %w", err)
	}
	return i, nil
}

// run asks ECS for the task of an intent. Asked again, it names the same task.
func (r *Runner) run(ctx context.Context, s runner.Spec, i intent) (arn string, err error) {
	over, err := r.overrides(s)
	if err != nil {
		return "", err
	}
	public := types.AssignPublicIpDisabled
	if r.c.PublicIP {
		public = types.AssignPublicIpEnabled
	}
	out, err := r.api.RunTask(ctx, &ecs.RunTaskInput{
		Cluster: &r.c.Cluster, TaskDefinition: &i.Definition, Count: aws.Int32(1),
		ClientToken: aws.String(i.token()), StartedBy: &i.Tag, Overrides: over,
		CapacityProviderStrategy: []types.CapacityProviderStrategyItem{{CapacityProvider: &i.Capacity, Weight: 1}},
		EnableExecuteCommand:     false, // no way in (AG-022)
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: r.c.Subnets, SecurityGroups: r.c.SecurityGroups, AssignPublicIp: public,
		}},
		Tags: []types.Tag{
			{Key: aws.String("lazy:tenant"), Value: &s.Tenant},
			{Key: aws.String("lazy:project"), Value: &s.Project},
			{Key: aws.String("lazy:task"), Value: aws.String(string(s.Task))},
		},
	})
	if used, ok := errors.AsType[*types.ConflictException](err); ok {
		// An earlier launcher got as far as this and was another nonce's: its task
		// is the run (B24).
		return r.adopt(ctx, i, used.ResourceIds)
	}
	if err != nil {
		return "", refused(ctx, err)
	}
	if len(out.Tasks) > 0 {
		return aws.ToString(out.Tasks[0].TaskArn), nil
	}
	return "", failed(out.Failures) // a 200 that started nothing
}

// overrides is all that a launch hands over: ids, and the nonce, the only secret.
// What to do is told in the answer to the hello (AG-025).
func (r *Runner) overrides(s runner.Spec) (*types.TaskOverride, error) {
	start, err := json.Marshal(map[string]any{
		"target": r.c.Target, "nonce": s.Nonce, "tenant": s.Tenant, "project": s.Project,
		"task_id": s.Task, "turn_id": s.Turn, "epoch": s.Epoch,
	})
	if err != nil {
		return nil, fmt.Errorf("write overrides: %w", err)
	}
	if n := len(start); n > MaxOverrides-512 { // the rest is names and quotes, of a fixed length
		return nil, fault.New(fault.TooLarge, "the launch of %s has %d bytes of overrides; ECS takes %d", s.Task.Short(), n, MaxOverrides)
	}
	container := Supervisor
	if s.Broker {
		container = Broker
	}
	return &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{
		Name:        &container,
		Environment: []types.KeyValuePair{{Name: aws.String(names.EnvStart), Value: aws.String(string(start))}},
	}}}, nil
}

// adopt finds the task that an intent's token was used for.
func (r *Runner) adopt(ctx context.Context, i intent, ids []string) (string, error) {
	for _, arn := range ids {
		if strings.HasPrefix(arn, "arn:") {
			return arn, nil
		}
	}
	arn, ok, err := r.search(ctx, i.Tag)
	if err == nil && !ok {
		err = fault.New(fault.Unavailable, "the task of this run was started and is not listed yet")
	}
	return arn, err
}

// search looks for a task by our tag, ended ones too.
func (r *Runner) search(ctx context.Context, tag string) (arn string, ok bool, err error) {
	for _, want := range []types.DesiredStatus{types.DesiredStatusRunning, types.DesiredStatusStopped} {
		out, err := r.api.ListTasks(ctx, &ecs.ListTasksInput{Cluster: &r.c.Cluster, StartedBy: &tag, DesiredStatus: want})
		if err != nil {
			return "", false, refused(ctx, err)
		}
		if len(out.TaskArns) > 0 {
			return out.TaskArns[0], true, nil
		}
	}
	return "", false, nil
}

// FindIn locates a run by its intent, else by our tag. A launch that may be under
// way is neither found nor said to be missing.
func (r *Runner) FindIn(ctx context.Context, tenant string, task id.Task, epoch int64) (string, bool, error) {
	k := store.For(tenant).Task(task).Launch(epoch)
	i, ok, err := r.load(ctx, k)
	if err != nil || !ok {
		return "", false, err // nothing is started without an intent
	}
	if i.ARN != "" {
		return refOf(i.ARN, i.Tag), true, nil
	}
	arn, ok, err := r.search(ctx, i.Tag)
	switch {
	case err != nil:
		return "", false, err
	case ok:
		i.ARN = arn
		if i, err = r.save(ctx, k, i); err != nil {
			return "", false, err
		}
		return refOf(i.ARN, i.Tag), true, nil
	case r.c.Now().Sub(i.At) < forgotten:
		return "", false, fault.New(fault.Unavailable, "a launch of this run was begun and ECS does not list it yet")
	case i.Missed == 0:
		// One look that finds nothing is no proof: the list of tasks lags (OW-07).
		i.Missed++
		if _, err := r.save(ctx, k, i); err != nil {
			return "", false, err
		}
		return "", false, fault.New(fault.Unavailable, "a launch of this run was begun and ECS does not list it; it is looked for once more")
	}
	return "", false, nil
}

// Find locates a run whose tenant is not known by the tags of running tasks.
func (r *Runner) Find(ctx context.Context, task id.Task, epoch int64) (ref string, ok bool, err error) {
	err = r.each(ctx, func(t types.Task) error {
		tag := aws.ToString(t.StartedBy)
		if _, of, n, is := ParseTag(tag); is && of == task && n == epoch {
			ref, ok = refOf(aws.ToString(t.TaskArn), tag), true
		}
		return nil
	})
	return ref, ok, err
}

// Stop asks a task to end: its supervisor has two minutes for a checkpoint and its
// report. Stopping what is gone is a success.
func (r *Runner) Stop(ctx context.Context, ref, why string) error {
	arn, _, err := parseRef(ref)
	if err != nil {
		return err
	}
	return r.stop(ctx, arn, why)
}

func (r *Runner) stop(ctx context.Context, arn, why string) error {
	if len(why) > maxReason {
		why = why[:maxReason]
	}
	_, err := r.api.StopTask(ctx, &ecs.StopTaskInput{Cluster: &r.c.Cluster, Task: &arn, Reason: &why})
	if missing(err) {
		return nil
	}
	if err != nil {
		return refused(ctx, err)
	}
	return nil
}
