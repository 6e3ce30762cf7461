package aws_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/rpc"
	"github.com/lazyplane/lazyplane/pkg/wire/aws"
)

// services answer as DynamoDB and KMS do, as far as a start needs them.
type services struct {
	broken atomic.Bool // KMS refuses
	gone   atomic.Bool // there is no table
	rows   sync.Map    // by key, the item
	calls  atomic.Int64
}

func keyOf(v any) string {
	k, _ := v.(map[string]any)
	return fmt.Sprint(k["pk"], k["sk"])
}

func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	b, _ := io.ReadAll(r.Body)
	var in map[string]any
	_ = json.Unmarshal(b, &in)
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	refuse := func(code string) {
		w.WriteHeader(http.StatusBadRequest)
		answer(map[string]string{"__type": code, "message": "no"})
	}
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case s.gone.Load():
		refuse("com.amazonaws.dynamodb.v20120810#ResourceNotFoundException")
	case op == "GetItem":
		if row, ok := s.rows.Load(keyOf(in["Key"])); ok {
			answer(map[string]any{"Item": row})
			return
		}
		answer(map[string]any{})
	case op == "PutItem":
		s.rows.Store(keyOf(in["Item"]), in["Item"])
		answer(map[string]any{})
	case s.broken.Load():
		refuse("AccessDeniedException")
	case in["EncryptionContext"].(map[string]any)[names.KeyContext] != names.TenantReserved:
		refuse("InvalidCiphertextException")
	case op == "Encrypt":
		plain, _ := base64.StdEncoding.DecodeString(in["Plaintext"].(string))
		answer(map[string]any{"CiphertextBlob": append([]byte("wrapped:"), plain...)})
	case op == "Decrypt":
		blob, _ := base64.StdEncoding.DecodeString(in["CiphertextBlob"].(string))
		answer(map[string]any{"Plaintext": []byte(strings.TrimPrefix(string(blob), "wrapped:"))})
	default:
		refuse("UnknownOperationException")
	}
}

func plane(t *testing.T, url string) *aws.Plane {
	t.Helper()
	arn := "arn:aws:states:eu-west-1:123456789012:stateMachine:m"
	env := map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": url,
		names.EnvTable: "t", names.EnvBucket: "b", names.EnvKey: "k",
		names.EnvMachineTurn: arn, names.EnvMachineRecov: arn, names.EnvMachineAccept: arn,
	}
	p, err := aws.New(func(name string) string { return env[name] }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAStartMakesNoRequest(t *testing.T) {
	s := &services{}
	srv := httptest.NewServer(s)
	defer srv.Close()
	plane(t, srv.URL)
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestAKeyThatCannotBeReadIsAnsweredForAndAskedForAgain(t *testing.T) {
	s := &services{}
	s.broken.Store(true)
	srv := httptest.NewServer(s)
	defer srv.Close()
	p := plane(t, srv.URL)
	h := p.Opened("rpc", rpc.New(rpc.Config{Base: p.Base(), Auth: p.App, App: p.App}))
	status := func() (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/daemon/status", nil))
		return w.Code, w.Body.String()
	}
	if code, body := status(); code != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"unavailable"`) || !strings.Contains(body, "may not use the deployment's KMS key") {
		t.Errorf("it answers %d %s", code, body)
	}
	if err := p.Open(t.Context()); fault.KindOf(err) != fault.Unavailable || !fault.Retryable(err) {
		t.Errorf("the fault is %v", err)
	}
	s.gone.Store(true)
	if code, body := status(); code != http.StatusServiceUnavailable || !strings.Contains(body, "the table is not there") {
		t.Errorf("without a table it answers %d %s", code, body)
	}
	s.gone.Store(false)
	s.broken.Store(false)
	if code, body := status(); code != http.StatusOK {
		t.Errorf("then it answers %d %s", code, body)
	}
	asked := s.calls.Load()
	if code, _ := status(); code != http.StatusOK || s.calls.Load() != asked {
		t.Error("the key is fetched with every request")
	}
}

func TestEveryFunctionHasTheSameKey(t *testing.T) {
	s := &services{}
	srv := httptest.NewServer(s)
	defer srv.Close()
	var keys []string
	for range 2 {
		p := plane(t, srv.URL)
		before := string(p.App.Key)
		if err := p.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(p.App.Key))
		if len(before) != 32 || before == keys[0] {
			t.Error("before it is open, what it derives can be guessed")
		}
	}
	if len(keys[0]) != 32 || keys[0] != keys[1] {
		t.Errorf("the keys are %x", keys)
	}
	n := 0
	s.rows.Range(func(k, row any) bool {
		n++
		if strings.Contains(fmt.Sprint(row), base64.StdEncoding.EncodeToString([]byte(keys[0]))) {
			t.Errorf("the key lies bare in %v", k)
		}
		return true
	})
	if n != 2 {
		t.Errorf("%d rows are stored, want the data key and the sealed one", n)
	}
}
