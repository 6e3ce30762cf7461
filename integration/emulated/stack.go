// Package emulated runs the hosted control plane on one machine without an
// account: the real function binaries behind a fake Runtime API, moto for
// DynamoDB, Step Functions, SQS, EventBridge, Secrets Manager, S3 and KMS, and supervisors as
// processes in place of Fargate. What moto cannot do is done by shims, each of which says which thing it
// stands in for: see feeds.go, and integration/moto and integration/lambdafake.
package emulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lazyplane/lazyplane/integration/lambdafake"
	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
	"github.com/lazyplane/lazyplane/statemachines"
)

// Table is the one table's name, and Bus the event bus's.
const (
	Table = "lazyplane"
	Bus   = "lazyplane"
	// ForgeSecret is the name of the secret with the forge App's key.
	ForgeSecret = "lazyplane/forge-app"
)

// Options say what to bring up.
type Options struct {
	Dir      string // of everything the stack keeps
	Config   string // the project's lazy.toml
	Tenant   string
	Project  string
	Email    string // of the person whose token the stack gives
	Name     string
	Bin      string        // folder of the programs: see Build
	Host     bool          // agents without a sandbox
	Sweep    time.Duration // between two visits of the clock; hosted it is a minute
	Log      io.Writer     // of the functions and the shims; nil drops it
	NoStream bool          // lose everything the table tells; the clock makes up for it
	NoBus    bool          // leave the event bus out; MakeBus brings it
	// Between stands between the functions and the services, nil for nothing. The
	// stack itself reaches the services past it.
	Between func(services http.Handler) http.Handler
}

// Stack is a running control plane.
type Stack struct {
	URL   string
	Token string // of the person in the options

	Table   *dynamodb.Client
	Queues  *sqs.Client
	Rules   *eventbridge.Client
	Secrets *secretsmanager.Client
	Events  string // address of the queue that events come in by
	Dead    string // address of the queue for what nobody could serve
	// Unpublished is the address of the queue for what nobody could be told.
	Unpublished string
	Functions   map[string]*lambdafake.Function
	Env         []string // of the functions

	o       Options
	log     *slog.Logger
	flows   *sfn.Client
	arns    map[string]string // of the state machines, by flow
	streams *dynamodbstreams.Client
	srv     *http.Server
	stop    context.CancelFunc
	tasks   sync.WaitGroup
	telling sync.Mutex // held while changes are being published
	ends    []func()   // run last to first
}

// Build compiles the functions and lazy-agent into dir, as they are deployed but
// for this machine. Flags are for the compiler.
func Build(ctx context.Context, source, dir string, flags ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := append([]string{"build", "-tags", "lambda.norpc", "-ldflags", "-s -w"}, flags...)
	args = append(args, "-o", dir+string(filepath.Separator), "./cmd/"+names.AgentBinary)
	for _, f := range names.Surfaces() {
		args = append(args, "./functions/"+f)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// Up brings everything up. An error leaves nothing running.
func Up(ctx context.Context, o Options) (_ *Stack, err error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if o.Sweep == 0 {
		o.Sweep = names.SweepHosted
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Stack{o: o, log: slog.New(slog.NewJSONHandler(o.Log, nil)), stop: stop, Functions: map[string]*lambdafake.Function{}, arns: map[string]string{}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.URL = "http://" + ln.Addr().String()
	mux := http.NewServeMux()
	s.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	s.tasks.Go(func() { _ = s.srv.Serve(ln) })
	// The emulator's lambda:invoke arrives here; the address is not the API's own.
	mux.HandleFunc("POST /invoke/{function}", func(w http.ResponseWriter, r *http.Request) {
		if f := s.Functions[r.PathValue("function")]; f != nil {
			f.ServeHTTP(w, r)
			return
		}
		http.Error(w, `{"errorType":"Lambda.ResourceNotFoundException"}`, http.StatusInternalServerError)
	})
	env, err := s.emulate(ctx)
	if err != nil {
		return nil, err
	}
	s.Env = env
	for _, name := range names.Surfaces() {
		env := env
		if name == names.SurfacePublish { // the last of a name wins
			env = append(slices.Clone(env), names.EnvParked+"="+s.Unpublished)
		}
		f, err := lambdafake.Start(lambdafake.Config{
			Name: name, Bin: filepath.Join(o.Bin, name), Env: env, Timeout: limit(name), Slack: time.Minute, Log: o.Log,
		})
		if err != nil {
			return nil, err
		}
		s.Functions[name] = f
		s.ends = append(s.ends, f.Close)
	}
	api := map[string]*lambdafake.Function{
		"daemon": s.Functions["rpc"], "builder": s.Functions["mcp"], "": s.Functions["mcp"],
		".well-known": s.Functions["auth"], "activate": s.Functions["auth"],
	}
	for _, name := range []string{"rpc", "mcp", "runner", "auth"} {
		api[name] = s.Functions[name]
	}
	mux.Handle("/", lambdafake.Gateway(api))
	if err := s.bootstrap(ctx); err != nil {
		return nil, err
	}
	s.feeds(run)
	return s, nil
}

// State is the folder of workspaces and runs.
func (s *Stack) State() string { return filepath.Join(s.o.Dir, "state") }

// limit is a function's time limit, as deployed.
func limit(name string) time.Duration {
	return map[string]time.Duration{
		names.SurfaceRPC: names.TimeoutRPC, names.SurfaceMCP: names.TimeoutMCP, names.SurfaceRunner: names.TimeoutRunner,
		names.SurfaceAuth: names.TimeoutAuth,
		names.SurfaceStep: names.TimeoutStep, names.SurfaceEvents: names.TimeoutEvents,
		names.SurfacePublish: names.TimeoutPublish,
	}[name]
}

// emulate starts the emulators and makes what a deployment would, and returns the
// functions' environment. The table is in an emulator of its own, since one that
// answers two requests at once lets two racing writes win.
func (s *Stack) emulate(ctx context.Context) ([]string, error) {
	rows, stop, err := moto.Run(ctx, filepath.Join(s.o.Dir, "moto", "table"))
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, stop)
	rest, stop, err := moto.Run(ctx, filepath.Join(s.o.Dir, "moto", "rest"), "flows.py", s.URL+"/invoke")
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, stop)
	// The disk of the functions. Its name is short: there are sockets below it.
	temp, err := os.MkdirTemp("", "lazy-")
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, func() { _ = os.RemoveAll(temp) })
	s.Table = dynamodb.NewFromConfig(moto.Config(rows))
	s.streams = dynamodbstreams.NewFromConfig(moto.Config(rows))
	if err := dynamo.CreateTable(ctx, s.Table, Table); err != nil {
		return nil, err
	}
	toRows, toRest := rows, rest
	if s.o.Between != nil {
		if toRows, err = s.between(ctx, rows); err != nil {
			return nil, err
		}
		if toRest, err = s.between(ctx, rest); err != nil {
			return nil, err
		}
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + temp,
		"AWS_REGION=" + moto.Region, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
		"AWS_ENDPOINT_URL=" + toRest, "AWS_ENDPOINT_URL_DYNAMODB=" + toRows,
		names.EnvTable + "=" + Table, names.EnvBucket + "=lazyplane", names.EnvURL + "=" + s.URL,
		names.EnvRunner + "=" + names.RunnerProcess,
		names.EnvState + "=" + s.State(), names.EnvAgent + "=" + filepath.Join(s.o.Bin, names.AgentBinary),
	}
	if s.o.Host {
		env = append(env, names.EnvSandbox+"=none")
	}
	if err := os.MkdirAll(s.State(), 0o700); err != nil {
		return nil, err
	}
	conf := moto.Config(rest)
	key, err := kms.NewFromConfig(conf).CreateKey(ctx, &kms.CreateKeyInput{})
	if err != nil {
		return nil, fmt.Errorf("make the key: %w", err)
	}
	env = append(env, names.EnvKey+"="+aws.ToString(key.KeyMetadata.Arn))
	s.Secrets = secretsmanager.NewFromConfig(conf)
	forge, err := s.Secrets.CreateSecret(ctx, &secretsmanager.CreateSecretInput{
		Name: aws.String(ForgeSecret), SecretString: aws.String("a random text"), // as the stack makes it
	})
	if err != nil {
		return nil, fmt.Errorf("make the forge App's secret: %w", err)
	}
	env = append(env, names.EnvForgeSecret+"="+aws.ToString(forge.ARN))
	buckets := s3.NewFromConfig(conf, func(o *s3.Options) { o.UsePathStyle = true })
	_, err = buckets.CreateBucket(ctx, &s3.CreateBucketInput{
		Bucket: aws.String("lazyplane"), CreateBucketConfiguration: &s3types.CreateBucketConfiguration{LocationConstraint: moto.Region},
	})
	if err != nil {
		return nil, fmt.Errorf("make the bucket: %w", err)
	}
	s.flows = sfn.NewFromConfig(conf)
	for _, name := range statemachines.Names() {
		src, err := statemachines.Source(name)
		if err != nil {
			return nil, err
		}
		out, err := s.flows.CreateStateMachine(ctx, &sfn.CreateStateMachineInput{
			Name: aws.String("lazyplane-" + name), Definition: deployed(src), Publish: true,
			RoleArn: aws.String("arn:aws:iam::123456789012:role/flows"),
		})
		if err != nil {
			return nil, fmt.Errorf("make state machine %s: %w", name, err)
		}
		s.arns[name] = aws.ToString(out.StateMachineArn)
		env = append(env, "LAZY_MACHINE_"+strings.ToUpper(name)+"="+aws.ToString(out.StateMachineArn))
	}
	s.Queues = sqs.NewFromConfig(conf)
	if s.Dead, err = s.queue(ctx, "dead", nil); err != nil {
		return nil, err
	}
	if s.Unpublished, err = s.queue(ctx, "unpublished", nil); err != nil {
		return nil, err
	}
	s.Rules = eventbridge.NewFromConfig(conf)
	if !s.o.NoBus {
		if err := s.MakeBus(ctx, func() error { return nil }); err != nil {
			return nil, err
		}
	}
	env = append(env, names.EnvBus+"="+Bus)
	at, err := s.Queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &s.Dead, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	if err != nil {
		return nil, err
	}
	redrive, err := json.Marshal(map[string]string{"deadLetterTargetArn": at.Attributes["QueueArn"], "maxReceiveCount": "5"})
	if err != nil {
		return nil, err
	}
	// What failed comes again after a moment; deployed, after minutes.
	s.Events, err = s.queue(ctx, "events", map[string]string{"RedrivePolicy": string(redrive), "VisibilityTimeout": "1"})
	return append(env, names.EnvParked+"="+s.Dead), err
}

// MakeBus makes the event bus, where it was left out. Nothing is told on it before
// listen has returned: a bus keeps nothing for those who come later.
func (s *Stack) MakeBus(ctx context.Context, listen func() error) error {
	s.telling.Lock()
	defer s.telling.Unlock()
	if _, err := s.Rules.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: aws.String(Bus)}); err != nil {
		return fmt.Errorf("make the event bus: %w", err)
	}
	return listen()
}

// between puts the options' handler before an emulator and returns its address.
func (s *Stack) between(ctx context.Context, endpoint string) (string, error) {
	to, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	srv := &http.Server{Handler: s.o.Between(proxy), ReadHeaderTimeout: 10 * time.Second}
	s.tasks.Go(func() { _ = srv.Serve(ln) })
	s.ends = append(s.ends, func() { _ = srv.Close() })
	return "http://" + ln.Addr().String(), nil
}

func (s *Stack) queue(ctx context.Context, name string, attributes map[string]string) (string, error) {
	out, err := s.Queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("lazyplane-" + name), Attributes: attributes})
	if err != nil {
		return "", fmt.Errorf("make queue %s: %w", name, err)
	}
	return aws.ToString(out.QueueUrl), nil
}

// bootstrap asks for the tenant the way an operator does: by invoking a function,
// which takes rights in the account.
func (s *Stack) bootstrap(ctx context.Context) error {
	event, err := json.Marshal(map[string]any{
		"source": feed.OperatorSource, "detail-type": feed.BootstrapType, "detail": app.Bootstrap{
			Tenant: s.o.Tenant, Project: s.o.Project, Config: s.o.Config, Email: s.o.Email, Name: s.o.Name,
		},
	})
	if err != nil {
		return err
	}
	out, err := s.Functions["events"].Call(ctx, event)
	if err != nil {
		return fmt.Errorf("make the tenant: %w", err)
	}
	var made app.Bootstrapped
	if err := json.Unmarshal(out, &made); err != nil || made.Token == "" {
		return errors.Join(errors.New("make the tenant: no token came back"), err)
	}
	s.Token = made.Token
	return nil
}

// Deploy puts another build of a function live.
func (s *Stack) Deploy(name, bin string) { s.Functions[name].Deploy(bin) }

// Redefine puts another definition of a flow in force, as a deployment does:
// executions that are under way go on by the one they began with.
func (s *Stack) Redefine(ctx context.Context, flow string, src []byte) error {
	_, err := s.flows.UpdateStateMachine(ctx, &sfn.UpdateStateMachineInput{
		StateMachineArn: aws.String(s.arns[flow]), Definition: deployed(src), Publish: true,
	})
	if err != nil {
		return fmt.Errorf("change the definition of flow %s: %w", flow, err)
	}
	return nil
}

func deployed(src []byte) *string {
	return aws.String(strings.ReplaceAll(string(src), "${StepFunction}", "step"))
}

// Executions returns how the executions of a flow stand, by their names.
func (s *Stack) Executions(ctx context.Context, flow string) (map[string]string, error) {
	out, err := s.flows.ListExecutions(ctx, &sfn.ListExecutionsInput{StateMachineArn: aws.String(s.arns[flow])})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, x := range out.Executions {
		all[aws.ToString(x.Name)] = string(x.Status)
	}
	return all, nil
}

// Close ends everything but runs that are still under way.
func (s *Stack) Close() {
	s.stop()
	if s.srv != nil {
		_ = s.srv.Close()
	}
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	s.tasks.Wait()
}
