package moto_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/lazyplane/lazyplane/integration/moto"
)

const definition = `{
  "StartAt": "Double",
  "States": {
    "Double": {
      "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke",
      "Parameters": {"FunctionName": "double", "Payload.$": "$"},
      "ResultSelector": {"n.$": "$.Payload.n"},
      "Catch": [{"ErrorEquals": ["TooLarge"], "ResultPath": "$.error", "Next": "Refused"}],
      "Next": "Ask"
    },
    "Ask": {
      "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "TimeoutSeconds": 60,
      "Parameters": {"FunctionName": "arn:aws:lambda:eu-west-1:123456789012:function:ask:live", "Payload": {"token.$": "$$.Task.Token", "n.$": "$.n"}},
      "End": true
    },
    "Refused": {"Type": "Pass", "End": true}
  }
}`

// steps is the code that the definition reaches.
type steps struct {
	t      *testing.T
	flows  *sfn.Client
	mu     sync.Mutex
	called []string // guarded by mu
}

func (s *steps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.called = append(s.called, r.URL.Path)
	s.mu.Unlock()
	var in struct {
		N     int    `json:"n"`
		Token string `json:"token"`
	}
	b, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(b, &in); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	switch {
	case r.URL.Path == "/double" && in.N > 100:
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"errorType":"TooLarge","errorMessage":"no"}`)
	case r.URL.Path == "/double":
		fmt.Fprintf(w, `{"n":%d}`, 2*in.N)
	case r.URL.Path == "/ask":
		go func() { // an answer that comes after the reply, as a supervisor's does
			if _, err := s.flows.SendTaskSuccess(s.t.Context(), &sfn.SendTaskSuccessInput{
				TaskToken: &in.Token, Output: aws.String(fmt.Sprintf(`{"answer":%d}`, in.N+1)),
			}); err != nil {
				s.t.Errorf("answer: %v", err)
			}
		}()
		io.WriteString(w, `{}`)
	}
}

func TestFlowsReachRealCodeAndMoreThanOnce(t *testing.T) {
	code := &steps{t: t}
	srv := httptest.NewServer(code)
	t.Cleanup(srv.Close)
	flows := sfn.NewFromConfig(moto.Config(moto.StartFlows(t, srv.URL+"/")))
	code.flows = flows
	machine, err := flows.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("double"), Definition: aws.String(definition), RoleArn: aws.String("arn:aws:iam::123456789012:role/flows"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		input string
		want  string
	}{{`{"n":1}`, `{"answer":3}`}, {`{"n":20}`, `{"answer":41}`}, {`{"n":101}`, `"Error":"TooLarge"`}} {
		run, err := flows.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn, Name: aws.String(fmt.Sprint("run-", i)), Input: &c.input})
		if err != nil {
			t.Fatalf("execution %d: %v", i, err)
		}
		out := ended(t, flows, run.ExecutionArn)
		got := strings.ReplaceAll(aws.ToString(out.Output), " ", "")
		if out.Status != types.ExecutionStatusSucceeded || !strings.Contains(got, c.want) {
			t.Errorf("execution %d of %s: %s %s, want %s", i, c.input, out.Status, got, c.want)
		}
	}
	if got, want := strings.Join(code.called, " "), "/double /ask /double /ask /double"; got != want {
		t.Errorf("called %s, want %s", got, want)
	}
}

// ended asks until an execution has ended; the test's own time bounds it.
func ended(t *testing.T, flows *sfn.Client, arn *string) *sfn.DescribeExecutionOutput {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := flows.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: arn})
		if err != nil {
			t.Fatal(err)
		}
		if out.Status != types.ExecutionStatusRunning {
			return out
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the execution is still running")
		}
	}
}

func TestTheServerEndsWithItsTest(t *testing.T) {
	var endpoint string
	t.Run("one", func(t *testing.T) { endpoint = moto.Start(t) })
	if endpoint == "" {
		t.SkipNow()
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint+"/moto-api/data.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Errorf("it still answers %s", res.Status)
	}
}

func TestAMissingEmulatorSkipsAndFailsInCI(t *testing.T) {
	for ci, want := range map[string]string{"": "--- SKIP", "true": "--- FAIL"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheServerEndsWithItsTest$/^one$", "-test.v")
		cmd.Env = []string{"PATH=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "CI=" + ci}
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), want+": TestTheServerEndsWithItsTest/one") || !strings.Contains(string(out), "moto") || (err != nil) != (ci == "true") {
			t.Errorf("CI=%q: %v\n%s", ci, err, out)
		}
	}
}
