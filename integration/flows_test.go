package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/enginetest"
	"github.com/lazyplane/lazyplane/pkg/engine/sfn"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// TestFlowsOnStepFunctions runs the engine contract on moto's Step Functions,
// which really executes the definitions; its lambda:invoke reaches the scripted
// steps over HTTP.
func TestFlowsOnStepFunctions(t *testing.T) {
	l := &flowSteps{steps: map[string]engine.Step{}}
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	api := awssfn.NewFromConfig(moto.Config(moto.StartFlows(t, srv.URL)))
	enginetest.Run(t, enginetest.Harness{
		Around:    func(t *testing.T, run func(t *testing.T)) { t.Parallel(); run(t) },
		Heartbeat: "States.Timeout",
		Emulator:  true,
		Open: func(t *testing.T, definitions map[string][]byte, step engine.Step) enginetest.Running {
			return deployFlows(t, api, definitions, l.add(step))
		},
	})
}

// flowSteps is where the emulator's lambda:invoke arrives: POST /FUNCTION with the
// payload.
type flowSteps struct {
	mu    sync.Mutex
	steps map[string]engine.Step
}

// add makes step a function and returns its name.
func (l *flowSteps) add(step engine.Step) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := fmt.Sprintf("step%d", len(l.steps))
	l.steps[name] = step
	return name
}

func (l *flowSteps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	step := l.steps[strings.TrimPrefix(r.URL.Path, "/")]
	l.mu.Unlock()
	payload, err := io.ReadAll(r.Body)
	if err != nil || step == nil {
		http.Error(w, `{"errorType":"Lambda.ResourceNotFoundException"}`, http.StatusInternalServerError)
		return
	}
	out, err := callStep(r.Context(), step, payload)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		// The form in which the runtime reports a function's error.
		out, err = json.Marshal(struct {
			Message string `json:"errorMessage"`
			Type    string `json:"errorType"`
		}{fault.Of(err).Public, engine.ErrorName(err)})
	}
	if err == nil {
		_, err = w.Write(out)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func callStep(ctx context.Context, step engine.Step, payload []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "internal error")
		}
	}()
	return step(ctx, payload)
}

func deployFlows(t *testing.T, api *awssfn.Client, definitions map[string][]byte, function string) enginetest.Running {
	t.Helper()
	machines := map[string]string{}
	for name, src := range definitions {
		out, err := api.CreateStateMachine(t.Context(), &awssfn.CreateStateMachineInput{
			Name:       aws.String(function + "-" + name),
			Definition: aws.String(strings.ReplaceAll(string(src), "${StepFunction}", function)),
			RoleArn:    aws.String("arn:aws:iam::123456789012:role/flows"),
		})
		if err != nil {
			t.Fatal(err)
		}
		machines[name] = aws.ToString(out.StateMachineArn)
	}
	e, err := sfn.New(api, machines)
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Running{
		Engine: e,
		Wait: func(t *testing.T, machine, name string) engine.Execution {
			return awaitFlow(t, e, machine, name)
		},
		Visited: func(t *testing.T, machine, name string) []string {
			return flowStates(t, api, e, machine, name)
		},
	}
}

// awaitFlow asks until the execution has ended; the service has no other way.
func awaitFlow(t *testing.T, e *sfn.Engine, machine, name string) engine.Execution {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		x, err := e.Describe(t.Context(), machine, name)
		if err != nil {
			t.Fatal(err)
		}
		if x.State != engine.Running {
			return x
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the test ended before the execution")
		case <-tick.C:
		}
	}
}

func flowStates(t *testing.T, api *awssfn.Client, e *sfn.Engine, machine, name string) []string {
	t.Helper()
	arn, err := e.ExecutionARN(machine, name)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	pages := awssfn.NewGetExecutionHistoryPaginator(api, &awssfn.GetExecutionHistoryInput{ExecutionArn: aws.String(arn)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range page.Events {
			if strings.HasSuffix(string(ev.Type), "StateEntered") {
				out = append(out, aws.ToString(ev.StateEnteredEventDetails.Name))
			}
		}
	}
	return out
}
