package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

const (
	talk  = "33333333-3333-4333-8333-333333333333"
	other = "44444444-4444-4444-8444-444444444444"
)

// rollout writes the beginning of a transcript of Codex.
func rollout(t *testing.T, dir, id, cwd string) string {
	t.Helper()
	at := filepath.Join(dir, "2026", "01", "02", "rollout-2026-01-02T03-04-05-"+id+".jsonl")
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	row := fmt.Sprintf(`{"type":"session_meta","payload":{"id":%q,"cwd":%q}}`+"\n", id, cwd)
	if err := os.WriteFile(at, []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestOfSeveralConversationsTheOneThatTheSessionHoldsIsItsOwn(t *testing.T) {
	req.Covers(t, "BL-012")
	if runtime.GOOS != "linux" {
		t.Skip("which files a process holds open is read from /proc")
	}
	dir, here := t.TempDir(), t.TempDir()
	at := rollout(t, dir, talk, here)
	rollout(t, dir, other, here) // the newer one, of somebody else
	w := &codexWatch{dir: dir, token: "LAZY_MCP_TOKEN=mine", cwd: here}
	if id, _ := w.held(); id != "" {
		t.Fatalf("nobody holds one, and it is %s", id)
	}
	hold := func(path, token string) (end func()) {
		c := exec.CommandContext(t.Context(), "sh", "-c", `exec 9>>"$1"; echo open; read x`, "sh", path)
		c.Env = append(os.Environ(), "LAZY_MCP_TOKEN="+token)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		return func() { _ = in.Close(); _ = c.Wait() }
	}
	defer hold(filepath.Join(filepath.Dir(at), "rollout-2026-01-02T03-04-05-"+other+".jsonl"), "theirs")()
	defer hold(at, "mine")()
	id, path := w.held()
	if want, err := filepath.EvalSymlinks(at); err != nil || id != talk || path != want {
		t.Errorf("it holds %s at %s", id, path)
	}
}

func TestAConversationThatCannotBeToldApartIsNotCaptured(t *testing.T) {
	req.Covers(t, "BL-012", "CV-007")
	dir, here, away := t.TempDir(), t.TempDir(), t.TempDir()
	rollout(t, dir, "55555555-5555-4555-8555-555555555555", here) // from before
	beside := 0
	w := &codexWatch{dir: dir, token: "LAZY_MCP_TOKEN=mine", cwd: here, beside: func() int { return beside }}
	w.before = w.files()
	rollout(t, dir, other, away)
	if _, _, err := w.only(); err != errNoTranscript { //nolint:errorlint // the sentinel itself
		t.Errorf("an old one and one of another folder: %v", err)
	}
	at := rollout(t, dir, talk, here)
	if id, path, err := w.only(); err != nil || id != talk || path != at {
		t.Errorf("the only one: %s %s %v", id, path, err)
	}
	beside = 1
	if _, _, err := w.only(); fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "beside this one") {
		t.Errorf("beside another session: %v", err)
	}
	beside = 0
	rollout(t, dir, "66666666-6666-4666-8666-666666666666", here)
	if _, _, err := w.only(); fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "2 conversations") {
		t.Errorf("two of them: %v", err)
	}
}

// minter is the person's own way to the control plane.
type minter struct {
	token string
	calls int
}

func (m *minter) Follow(context.Context, string, string, any, ...client.Option) error { return nil }

func (m *minter) Call(_ context.Context, _ string, _, out any, _ ...client.Option) error {
	m.calls++
	b, err := json.Marshal(map[string]string{"label": "builder-x", "token": m.token})
	if err != nil {
		return err
	}
	return json.Unmarshal(b, out)
}

func TestABuildersTokenThatIsGoneIsIssuedAnewToItsLauncherOnce(t *testing.T) {
	req.Covers(t, "MC-012", "MC-020")
	var good atomic.Value
	good.Store("lzy_builder_new")
	var calls atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+good.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"code":"unauthenticated","message":"no"}}`))
			return
		}
		_, _ = w.Write([]byte(`{}`))
	}))
	defer up.Close()
	s := &builderSession{label: "builder-x", token: "lzy_builder_old", url: up.URL, file: filepath.Join(t.TempDir(), "mcp.json")}
	m := &minter{token: "lzy_builder_new"}
	h := &healing{store: &client.StorageClient{Base: up.URL, Token: s.token, HTTP: up.Client()}, s: s, rpc: m}
	for range 2 {
		if err := h.call(t.Context(), "getStoragePath", struct{}{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(s.file); err != nil || !strings.Contains(string(b), m.token) || m.calls != 1 || calls.Load() != 3 {
		t.Errorf("%d calls, %d tokens asked for, the file says %s (%v)", calls.Load(), m.calls, b, err)
	}
	good.Store("lzy_builder_another")
	calls.Store(0)
	if err := h.call(t.Context(), "getStoragePath", struct{}{}, nil); fault.KindOf(err) != fault.Unauthenticated || calls.Load() != 1 || m.calls != 2 {
		t.Errorf("without another token: %v after %d calls", err, calls.Load())
	}
}
