package fargate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
	"github.com/lazyplane/lazyplane/pkg/runner/runnertest"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

const (
	image      = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/project@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	supervisor = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/lazy@sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// shim stands before moto and does what ECS does and moto does not, each in the
// one call it concerns:
//   - RunTask knows client tokens: the same request again names the same task, and
//     another one with the same token is a ConflictException;
//   - RunTask takes a capacity provider, where moto asks for a container instance;
//   - DescribeTasks says MISSING of what it does not know, or has forgotten;
//   - containers are what a test says of them;
//   - a task ends with a reason and exit codes, because moto runs nothing.
type shim struct {
	t    *testing.T
	moto string

	mu      sync.Mutex
	tokens  map[string]started        // guarded by mu
	calls   map[string]int            // guarded by mu
	bodies  []string                  // guarded by mu; of RunTask
	ends    map[string]map[string]any // guarded by mu; by task ARN
	forgot  map[string]bool           // guarded by mu
	stopped map[string]bool           // guarded by mu
	created map[string]float64        // guarded by mu; other times of creation
	// answer, when set, may answer a call in ECS's place.
	answer func(action string, in map[string]any) (status int, body string, ok bool)
	// after, when set, is told of a call that ECS has carried out; false loses the
	// answer.
	after func(action string) bool
}

type started struct{ request, answer string }

func newShim(t *testing.T, endpoint string) *shim {
	return &shim{
		t: t, moto: endpoint, tokens: map[string]started{}, calls: map[string]int{},
		ends: map[string]map[string]any{}, forgot: map[string]bool{}, stopped: map[string]bool{}, created: map[string]float64{},
	}
}

func (s *shim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in map[string]any
	if err := json.Unmarshal(body, &in); err != nil {
		s.t.Errorf("%s: %v", action, err)
	}
	s.calls[action]++
	status, out := 0, ""
	if s.answer != nil {
		if code, text, ok := s.answer(action, in); ok {
			status, out = code, text
		}
	}
	if status == 0 {
		status, out = s.serve(r, action, in, body)
	}
	if s.after != nil && !s.after(action) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	io.WriteString(w, out)
}

func (s *shim) serve(r *http.Request, action string, in map[string]any, body []byte) (int, string) {
	switch action {
	case "RunTask":
		return s.runTask(r, in, body)
	case "DescribeTasks":
		return s.describe(r, in, body)
	case "StopTask":
		arn, _ := in["task"].(string)
		s.stopped[arn] = true
	}
	return s.pass(r, body)
}

// pass asks moto.
func (s *shim) pass(r *http.Request, body []byte) (int, string) {
	req, err := http.NewRequestWithContext(context.Background(), r.Method, s.moto+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return 500, "{}"
	}
	req.Header = r.Header.Clone()
	req.Header.Del("Accept-Encoding")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Errorf("moto: %v", err)
		return 500, "{}"
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, withoutContainers(b)
}

// withoutContainers drops what moto says of containers, which is of no type that
// the SDK reads; what a test says of them is added later.
func withoutContainers(b []byte) string {
	var answer map[string]any
	if json.Unmarshal(b, &answer) != nil {
		return string(b)
	}
	all, _ := answer["tasks"].([]any)
	if one, ok := answer["task"]; ok {
		all = append(all, one)
	}
	for _, x := range all {
		delete(x.(map[string]any), "containers")
	}
	out, _ := json.Marshal(answer)
	return string(out)
}

func (s *shim) runTask(r *http.Request, in map[string]any, body []byte) (int, string) {
	s.bodies = append(s.bodies, string(body))
	token, _ := in["clientToken"].(string)
	if was, ok := s.tokens[token]; ok {
		if was.request == string(body) {
			return 200, was.answer
		}
		var out struct {
			Tasks []struct {
				TaskArn string `json:"taskArn"`
			} `json:"tasks"`
		}
		_ = json.Unmarshal([]byte(was.answer), &out)
		return 400, fmt.Sprintf(`{"__type":"ConflictException","message":"the token was used for another request","resourceIds":[%q]}`, out.Tasks[0].TaskArn)
	}
	delete(in, "capacityProviderStrategy")
	in["launchType"] = "FARGATE"
	changed, _ := json.Marshal(in)
	status, out := s.pass(r, changed)
	if status == 200 {
		s.tokens[token] = started{string(body), out}
	}
	return status, out
}

func (s *shim) describe(r *http.Request, in map[string]any, body []byte) (int, string) {
	status, out := s.pass(r, body)
	if status != 200 {
		return status, out
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		s.t.Error(err)
	}
	known := map[string]bool{}
	var tasks []any
	all, _ := answer["tasks"].([]any)
	for _, x := range all {
		task := x.(map[string]any)
		arn := task["taskArn"].(string)
		if s.forgot[arn] {
			continue
		}
		known[arn] = true
		task["lastStatus"] = "RUNNING" // moto takes it through its states by the number of looks
		if s.stopped[arn] {
			task["lastStatus"] = "STOPPED"
		}
		if end, ok := s.ends[arn]; ok {
			maps.Copy(task, end)
			task["lastStatus"] = "STOPPED"
		}
		if at, ok := s.created[arn]; ok {
			task["createdAt"] = at
		}
		tasks = append(tasks, task)
	}
	var failures []any
	asked, _ := in["tasks"].([]any)
	for _, a := range asked {
		if arn := a.(string); !known[arn] {
			failures = append(failures, map[string]any{"arn": arn, "reason": "MISSING"})
		}
	}
	b, _ := json.Marshal(map[string]any{"tasks": tasks, "failures": failures})
	return 200, string(b)
}

// rig is a cluster, a table and control planes that come and go.
type rig struct {
	*shim
	api *ecs.Client
	db  store.Store
	c   fargate.Config
	now time.Time
}

// emulator is the address of moto.
type emulator struct{ url string }

func (e emulator) rig(t *testing.T) *rig {
	t.Helper()
	res, err := http.Post(e.url+"/moto-api/reset", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	s := newShim(t, e.url)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	api := ecs.NewFromConfig(moto.Config(srv.URL), func(o *ecs.Options) { o.Retryer = aws.NopRetryer{} })
	if _, err := api.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: aws.String("lazy")}); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "lazy.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r := &rig{shim: s, api: api, db: db, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	r.c = fargate.Config{
		Cluster: "lazy", Subnets: []string{e.first(t, "DescribeSubnets", "subnet")}, SecurityGroups: []string{e.first(t, "DescribeSecurityGroups", "sg")}, PublicIP: true,
		Image: func(context.Context, runner.Spec) (string, error) { return image, nil },
		Task: fargate.Definition{
			Family: "lazy-run", SupervisorImage: supervisor, ExecutionRole: "arn:aws:iam::123456789012:role/execution",
			LogGroup: "/lazy/runs", Region: moto.Region, CPU: 1024, MemoryMiB: 4096, DiskGiB: 30,
		},
		MaxAge: 6 * time.Hour, Target: "https://plane.example/prod", Now: func() time.Time { return r.now },
	}
	return r
}

// first asks moto for something of the network that every account has.
func (e emulator) first(t *testing.T, action, prefix string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url, strings.NewReader("Action="+action+"&Version=2016-11-15"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+moto.Region+"/ec2/aws4_request, SignedHeaders=host, Signature=0")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(prefix + "-[0-9a-f]{8,}").FindString(string(b))
	if id == "" {
		t.Fatalf("moto has no %s: %s", prefix, b)
	}
	return id
}

func (r *rig) runner() *fargate.Runner { return fargate.New(r.api, r.db, r.c) }

func spec(epoch int64) runner.Spec {
	return runner.Spec{
		Tenant: runnertest.Tenant, Project: "p", Task: runnertest.Task, Turn: "t1", Epoch: epoch, Nonce: "lzn_local_canary",
	}
}

func (r *rig) launch(t *testing.T, epoch int64) (ref, arn string) {
	t.Helper()
	ref, err := r.runner().Launch(t.Context(), spec(epoch))
	if err != nil {
		t.Fatal(err)
	}
	arn, _, _ = strings.Cut(ref, " ")
	return ref, arn
}

// end has a task end as ECS would tell it.
func (r *rig) end(arn string, how map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends[arn] = how
}

func (r *rig) count(action string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[action]
}

// world is the cluster as the contract sees it.
type world struct{ *rig }

func (w world) Runner() runnertest.Runner { return w.runner() }

func (w world) Started() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tokens)
}

func (w world) End(t *testing.T, epoch int64) {
	t.Helper()
	ref, ok, err := w.runner().FindIn(t.Context(), runnertest.Tenant, runnertest.Task, epoch)
	if err != nil || !ok {
		t.Fatalf("find %d: %t %v", epoch, ok, err)
	}
	arn, _, _ := strings.Cut(ref, " ")
	w.end(arn, exited(fargate.Supervisor, 0))
}

// exited is the end by a container that exited.
func exited(name string, code int) map[string]any {
	return map[string]any{
		"stopCode": "EssentialContainerExited", "stoppedReason": "Essential container in task exited",
		"containers": []any{map[string]any{"name": name, "exitCode": code}},
	}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
