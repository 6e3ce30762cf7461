// Package aws composes the product as hosted functions: the same use cases, edges
// and definitions as on a laptop, over DynamoDB, Step Functions, S3, SQS,
// EventBridge, Secrets Manager and KMS.
package aws

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/blob/s3"
	"github.com/lazyplane/lazyplane/pkg/bus"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/engine/sfn"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/queue"
	"github.com/lazyplane/lazyplane/pkg/queue/sqs"
	sealkms "github.com/lazyplane/lazyplane/pkg/seal/kms"
	"github.com/lazyplane/lazyplane/pkg/secret"
	secretaws "github.com/lazyplane/lazyplane/pkg/secret/aws"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
	"github.com/lazyplane/lazyplane/pkg/telemetry/tracing"
)

// Plane is what one function has of the control plane.
type Plane struct {
	App    *app.App
	Config config.Hosted
	Log    *slog.Logger
	Trace  *tracing.Tracer
	Parked queue.Queue // nil where none is configured

	base edge.Base
	keys keyring
	bus  bus.Bus
	// secrets are those that people put in by hand.
	secrets *secret.Cache
	wrong   error // why it can serve nothing, nil when it can

	mu   sync.Mutex
	open bool // guarded by mu: everything that takes a request is there
}

// Main reads the environment of the function called surface and composes it. Where
// that is not possible the function starts all the same: a request is then told
// what is missing and is tried again, where a failed start would tell nobody
// anything.
func Main(surface string) *Plane {
	log := telemetry.New(os.Stderr, telemetry.Options{Stage: os.Getenv(names.EnvStage), Function: surface})
	p, err := New(os.Getenv, log)
	if err != nil {
		log.Error("the function cannot serve anything", "error", err)
		return halted(log, err)
	}
	return p
}

// halted is a plane that answers every request with what its deployment lacks.
func halted(log *slog.Logger, why error) *Plane {
	ids := id.Gen{Rand: rand.Reader}
	return &Plane{
		Log: log, Trace: tracing.New(tracing.Options{Service: "lazyplane"}),
		App:   app.New(app.Deps{Now: time.Now, IDs: ids, Log: log}),
		base:  edge.Base{Log: log, Now: time.Now, NewID: ids.New, Hop: names.HopHosted},
		wrong: fault.Wrap(fault.Unavailable, why, "this part of the control plane is not deployed whole: %s", fault.Of(why).Public),
	}
}

// New composes a function from its environment. It makes no request: what needs
// one is done by Open, so that a start is quick and a failure is answered.
func New(getenv func(string) string, log *slog.Logger) (*Plane, error) {
	c, err := config.LoadHosted(getenv)
	if err != nil {
		return nil, err
	}
	session := dial(c.Region, getenv)
	ids := id.Gen{Rand: rand.Reader}
	flows, err := sfn.New(awssfn.NewFromConfig(session("SFN")), c.Flows)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the function's environment names no state machines")
	}
	db := dynamo.New(dynamodb.NewFromConfig(session("DYNAMODB")), c.Table)
	sealer := sealkms.New(kms.NewFromConfig(session("KMS")), c.Key, db)
	p := &Plane{
		Config: c, Log: log,
		Trace: tracing.New(tracing.Options{
			Exporter: tracing.OTLP(getenv(names.EnvOTLP), http.DefaultClient), Service: "lazyplane", Version: c.Version, Stage: getenv(names.EnvStage),
		}),
		base: edge.Base{Log: log, Now: time.Now, NewID: ids.New, Hop: names.HopHosted, Address: edge.Address{URL: c.URL, Proof: c.Edge}},
		keys: keyring{db: db, seal: sealer}, bus: newBus(c.Bus, session),
		secrets: secret.NewCache(secretaws.New(secretsmanager.NewFromConfig(session("SECRETS_MANAGER"))), time.Now),
	}
	if c.Parked != "" {
		p.Parked = sqs.New(awssqs.NewFromConfig(session("SQS")), c.Parked)
	}
	// Until it is open a plane has a key of its own, with which nothing that is
	// derived can be guessed, or works anywhere.
	own := make([]byte, 32)
	_, _ = rand.Read(own) // never fails: it ends the process instead
	d := app.Deps{
		Key: own, Store: db, Engine: flows, Now: time.Now, IDs: ids, Log: log, Hop: names.HopHosted,
		// The stream of the table tells of outbox rows, and of changes.
		Publish: func(store.Key) {},
		About:   about,
		Seal:    sealer, Provider: drivers.Provider,
		Blob: s3.New(awss3.NewFromConfig(session("S3"), pathStyle), c.Bucket, time.Now),
	}
	if err := p.place(&d, session); err != nil {
		return nil, err
	}
	p.App = app.New(d)
	if d.Settings == nil {
		p.App.Settings = p.settings
	}
	return p, nil
}

// Base is what every HTTP surface of the plane is given.
func (p *Plane) Base() edge.Base { return p.base }

// Open fetches what requests need and the environment does not hold: the key of
// token texts. It does nothing once that has succeeded; a failure is
// fault.Unavailable, and the next request tries again.
func (p *Plane) Open(ctx context.Context) error {
	if p.wrong != nil {
		return p.wrong
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		return nil
	}
	key, err := p.keys.load(ctx)
	if fault.Retryable(err) {
		return err // it names what does not answer, or is missing
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the control plane cannot read its key at the moment")
	}
	p.App.Key = key
	p.open = true
	return nil
}

// Opened serves h once the plane is open, and answers for it while it is not.
func (p *Plane) Opened(surface string, h http.Handler) http.Handler {
	return p.Trace.HTTP(surface, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := p.Open(r.Context()); err != nil {
			p.base.Serve(w, r, surface, func(x *edge.Exchange) { x.Fail(err) })
			return
		}
		h.ServeHTTP(w, r)
	}))
}
