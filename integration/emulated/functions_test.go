package emulated_test

import (
	"bufio"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/integration/lambdafake"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// snoops is an agent that looks for credentials before it works.
const snoops = `env
git remote -v
cat .git/config "$(git rev-parse --git-common-dir)/config"
ps -ww -o args | head -n 50
cat "$LAZY_PROMPT_FILE"
` + commits

// TestTheDeployedFunctions has one stack for all its parts, each with a task of its
// own.
func TestTheDeployedFunctions(t *testing.T) {
	root := repository(t, snoops)
	s, log := emulate(t, root)
	parts := map[string]func(*testing.T, *emulated.Stack, *world){
		"samples-and-B09": samplesAreAnswered, "half": aHalfDeployedFunctionSaysWhatItLacks, "errors": errorsAreReal,
		"B42": aRetriedStartIsOneTurn, "B24": aLostStarterIsSucceeded, "stream": heartbeatsLeaveEarly,
		"B25": b25AnUnreachableRunIsNotReplaced, "B28": b28RowsThatAlwaysDeclineDoNotStandInTheWay, "check": anOperatorIsToldWhatIsMissing,
		"discovery": allIsFoundFromTheAddress, "login": aPersonSignsInAndOut,
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) { // they share the stack, so an order is one case
		t.Run(name, func(t *testing.T) {
			parts[name](t, s, hosted(t, s, root))
		})
	}
	t.Run("lines", func(t *testing.T) { everyLineSaysWhoseItIs(t, log) })
	t.Run("B35", func(t *testing.T) { noCredentialLiesAround(t, s, log) })
}

func sample(t *testing.T, function string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "functions", function, "event.json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sample beside each program drives the program itself.
func samplesAreAnswered(t *testing.T, s *emulated.Stack, _ *world) {
	for _, name := range []string{"rpc", "mcp", "runner", "auth"} {
		r, err := s.Functions[name].Invoke(t.Context(), sample(t, name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		head, body, err := r.HTTP()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b, err := io.ReadAll(body)
		status, word := http.StatusUnauthorized, "unauthenticated"
		switch name {
		case "mcp":
			word = ""
		case "auth":
			status, word = http.StatusBadRequest, "invalid_grant"
		}
		if err != nil || head.Status != status || !strings.Contains(string(b), word) {
			t.Errorf("%s answers %d %s, %v", name, head.Status, b, err)
		}
	}
	var e *lambdafake.Error
	if _, err := s.Functions["step"].Call(t.Context(), sample(t, "step")); !errors.As(err, &e) || e.Type != "Lazy.not_found" || e.Message == "" {
		t.Errorf("step answers %v", err)
	}
	out, err := s.Functions["publish"].Call(t.Context(), sample(t, "publish"))
	if err != nil || string(out) != `{"batchItemFailures":[]}` {
		t.Errorf("publish answers %s, %v", out, err)
	}
	untold, err := s.Queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &s.Unpublished})
	if err != nil || len(untold.Messages) != 1 || !strings.Contains(*untold.Messages[0].Body, "HIS#00000003") {
		t.Errorf("the row that nobody can read is not put aside: %v, %v", untold, err)
	}
	out, err = s.Functions["events"].Call(t.Context(), sample(t, "events"))
	if err != nil || string(out) != `{"batchItemFailures":[]}` {
		t.Errorf("events answers %s, %v", out, err)
	}
	parked, err := s.Queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &s.Dead})
	if err != nil || len(parked.Messages) != 1 || *parked.Messages[0].Body != `{"source":` {
		t.Errorf("the message that nobody can read is not among the dead letters: %v, %v", parked, err)
	}
	for payload, want := range map[string]string{`{"step":"none.v1","v":1}`: "Lazy.unavailable", `{"step":"prepare.v1","v":9}`: "Lazy.unavailable", `{"step":"none","v":1}`: "Lazy.invalid"} {
		if _, err := s.Functions["step"].Call(t.Context(), []byte(payload)); !errors.As(err, &e) || e.Type != want || strings.Contains(e.Message, "fault") {
			t.Errorf("%s is answered with %v", payload, err)
		}
	}
}

// What only fails once it is needed can be asked for: here the forge App's key,
// which was not put in, is damaged, and is put in.
func anOperatorIsToldWhatIsMissing(t *testing.T, s *emulated.Stack, _ *world) {
	ask := func() string {
		out, err := s.Functions["events"].Call(t.Context(), []byte(`{"source":"lazyplane.operator","detail-type":"Check"}`))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	for _, c := range []struct{ put, want string }{
		{"", `"ok":false,"problem":"the private key of the forge App was not put in yet: what is there is none","next":["Put it in: aws secretsmanager put-secret-value`},
		{strings.Replace(whole, "MII", "canary", 1), `"the forge App's key","ok":false`},
		{whole, `"the forge App's key","ok":true}`},
	} {
		if c.put != "" {
			_, err := s.Secrets.PutSecretValue(t.Context(), &secretsmanager.PutSecretValueInput{SecretId: aws.String(emulated.ForgeSecret), SecretString: &c.put})
			if err != nil {
				t.Fatal(err)
			}
		}
		got := ask()
		if !strings.Contains(got, c.want) || !strings.Contains(got, `{"what":"the key of tokens","ok":true}`) || strings.Contains(got, "random text") || strings.Contains(got, "canary") {
			t.Errorf("it answers %s, want %s", got, c.want)
		}
	}
}

// A function that is told too little says so to whoever asks, in a way that is
// tried again, and serves nothing.
func aHalfDeployedFunctionSaysWhatItLacks(t *testing.T, s *emulated.Stack, _ *world) {
	for _, name := range names.Surfaces() {
		f, err := lambdafake.Start(lambdafake.Config{
			Name: name, Bin: filepath.Join(programs(t), name),
			Env: []string{"AWS_REGION=eu-west-1", names.EnvTable + "=t", names.EnvBucket + "=b"},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := f.Invoke(t.Context(), sample(t, name))
		said := ""
		if e, failed := errors.AsType[*lambdafake.Error](err); failed {
			said = e.Type + " " + e.Message
		} else if err != nil {
			t.Fatal(err)
		} else {
			head, body, err := r.HTTP()
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(body)
			if err != nil || head.Status != http.StatusServiceUnavailable {
				t.Errorf("%s answers %d, %v", name, head.Status, err)
			}
			said = string(b)
		}
		if !strings.Contains(said, "unavailable") || !strings.Contains(said, names.EnvKey+" is not set") || strings.Contains(said, names.EnvTable) {
			t.Errorf("%s says %s", name, said)
		}
	}
}

// A request that is refused before its work has a status of its own, framed or not.
func errorsAreReal(t *testing.T, s *emulated.Stack, w *world) {
	req.Covers(t, "RP-003")
	for _, c := range []struct {
		path, token, body string
		status            int
	}{
		{"/rpc/listTasks", "nonsense", "{}", 401},
		{"/rpc/listTasks", s.Token, `{"unknown":1}`, 400},
		{"/rpc/nothing", s.Token, "{}", 404},
		{"/rpc/listTasks", s.Token, `{"x":"` + strings.Repeat("x", names.BodyMax) + `"}`, 413},
		{"/mcp/builder", s.Token, "{}", 401},
		{"/builder/storage", s.Token, "{}", 401},
		{"/daemon/nothing", s.Token, "{}", 404},
	} {
		res := post(t, s.URL+c.path, c.token, c.body)
		_ = res.Body.Close()
		if res.StatusCode != c.status || res.Header.Get("Content-Type") == "application/x-ndjson" {
			t.Errorf("%s is answered with %s %s, want %d", c.path, res.Status, res.Header.Get("Content-Type"), c.status)
		}
	}
	if who := w.call("whoAmI", map[string]any{}); who["email"] != email {
		t.Errorf("the token of %s is %v", email, who)
	}
}

func post(t *testing.T, url, token, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(names.HeaderHeartbeat, "1")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A held request sends its first line before there is anything to say.
func heartbeatsLeaveEarly(t *testing.T, s *emulated.Stack, w *world) {
	req.Covers(t, "RP-003")
	w.begin("deploy")
	res := post(t, s.URL+"/rpc/waitTasks", s.Token, `{"task_ids":["deploy"],"timeout_s":300}`)
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	first, err := in.ReadString('\n')
	if err != nil || first != "{\"lazyEnvelope\":1}\n" {
		t.Fatalf("the first line is %q, %v", first, err)
	}
	w.goOn("deploy") // the wait could not have ended before
	rest, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(rest), `"status":20`) {
		t.Errorf("then came %q, %v", rest, err)
	}
	w.finish("deploy")
}

// A start whose answer was lost is sent again under its key.
func aRetriedStartIsOneTurn(t *testing.T, s *emulated.Stack, w *world) {
	req.Covers(t, "B42")
	w.call("createTask", map[string]any{"goal": "Do it once", "prompt": "please", "code": "once"})
	var turns []string
	for range 2 {
		var out struct {
			Turn string `json:"turn_id"`
		}
		if err := w.c.Call(t.Context(), "startTask", map[string]any{"task_id": "once"}, &out, client.WithKey("the-key")); err != nil {
			t.Fatal(err)
		}
		turns = append(turns, out.Turn)
	}
	if turns[0] == "" || turns[0] != turns[1] {
		t.Errorf("two turns were begun: %v", turns)
	}
	w.finish("once")
}

// The function that launches a run is lost before it can note the run.
func aLostStarterIsSucceeded(t *testing.T, s *emulated.Stack, w *world) {
	req.Covers(t, "B24")
	before, err := filepath.Glob(filepath.Join(w.state, "runs", "*", "*", spool.StartFile))
	if err != nil {
		t.Fatal(err)
	}
	w.call("createTask", map[string]any{"goal": "Outlive it", "prompt": "please", "code": "orphan"})
	var out map[string]any
	if err := w.c.Call(t.Context(), "startTask", map[string]any{"task_id": "orphan"}, &out); err != nil {
		t.Fatal(err)
	}
	for n := len(before); n == len(before); {
		all, err := filepath.Glob(filepath.Join(w.state, "runs", "*", "*", spool.StartFile))
		if err != nil {
			t.Fatal(err)
		}
		if n = len(all); n == len(before) {
			w.pause()
		}
	}
	s.Functions["step"].Kill()
	w.finish("orphan")
	tid, _ := w.call("showTask", map[string]any{"task_id": "orphan"})["task_id"].(string)
	runs, err := filepath.Glob(filepath.Join(w.state, "runs", tid[:8], "*", spool.StartFile))
	if err != nil || len(runs) != 2 {
		t.Errorf("%d runs were launched, want the turn's and the accept's broker: %v", len(runs), err)
	}
}

var credential = regexp.MustCompile(`lz[ynr]_[A-Za-z0-9-]+_[A-Za-z0-9-]*_?[0-9a-f]{32}|lz[do]_[0-9a-f]{32}`)

// No text of a credential is where somebody could read it later.
func noCredentialLiesAround(t *testing.T, s *emulated.Stack, log *book) {
	req.Covers(t, "B35", "P8")
	search := func(where, text string) {
		if found := credential.FindString(text); found != "" {
			t.Errorf("%s holds %s…", where, found[:20])
		}
	}
	if !strings.Contains(log.String(), `"msg":"step"`) || !strings.Contains(log.String(), `"surface":"mcp"`) {
		t.Fatal("the log is not there")
	}
	search("the functions' log", log.String())
	for _, secret := range []string{"PRIVATE KEY", "a random text"} { // what lay in the forge App's secret
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	rows, err := s.Table.Scan(t.Context(), &dynamodb.ScanInput{TableName: new(emulated.Table)})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, row := range rows.Items {
		for _, v := range row {
			switch v := v.(type) {
			case *types.AttributeValueMemberS:
				text.WriteString(v.Value + "\n")
			case *types.AttributeValueMemberB:
				doc, err := store.Unpack(v.Value)
				if err != nil {
					t.Fatal(err)
				}
				text.Write(append(doc, '\n'))
			}
		}
	}
	if !strings.Contains(text.String(), "LAZY_TASK_CODE") {
		t.Error("what the agent saw is not on the record")
	}
	search("the table", text.String())
	err = filepath.WalkDir(s.State(), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(path) == spool.TokenFile || filepath.Base(path) == spool.StartFile {
			return err
		}
		b, err := os.ReadFile(path)
		search(path, string(b))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
