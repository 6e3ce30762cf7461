package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// project makes a repository that is set up, and an environment inside it.
func project(t *testing.T) (*Env, config.Paths, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, config.File), []byte("[agents.command]\ncommand = [\"true\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	var out, errs bytes.Buffer
	e := &Env{
		In: strings.NewReader(""), Out: &out, Err: &errs, Dir: root, Self: "/lazy", Version: "1",
		Now: time.Now, Width: func() int { return 80 }, TTY: func(any) bool { return false },
		Piped: func() bool { return false }, Environ: func() []string { return []string{"PATH=/bin", names.EnvHome + "=/elsewhere"} },
		Getenv: func(k string) string {
			if k == names.EnvHome {
				return home
			}
			return ""
		},
		Lock: FileLock, Alive: ProcessAlive,
		Detach: func([]string, []string, string, string) error { return errors.New("nothing is started here") },
	}
	p, err := config.PathsIn(home, root)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.WritePrivate(p.Token(), []byte("owner-secret\n")); err != nil {
		t.Fatal(err)
	}
	return e, p, &out, &errs
}

func announce(t *testing.T, p config.Paths, url string) {
	t.Helper()
	if err := config.WritePlane(p.Plane(), config.Plane{URL: url, PID: os.Getpid(), Started: time.Now(), Version: "1", Root: p.Root}); err != nil {
		t.Error(err)
	}
}

// serve is a control plane of p made of the given commands.
func serve(t *testing.T, p config.Paths, commands map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /daemon/status", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"version": "1", "projectRoot": p.Root})
	})
	for name, f := range commands {
		mux.HandleFunc("POST /rpc/"+name, f)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	announce(t, p, s.URL)
	return s.URL
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}
}

func TestAStrangerOnThePlanesPortIsSentNoCredential(t *testing.T) {
	e, p, _, errs := project(t)
	var seen atomic.Value
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.URL.Path != "/daemon/status" {
			seen.Store(r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization"))
		}
		fmt.Fprint(w, `{"version":"1","projectRoot":"/somewhere/else"}`)
	}))
	defer stranger.Close()
	announce(t, p, stranger.URL)

	if code := Main(t.Context(), e, []string{"list"}); code != 1 {
		t.Errorf("got exit code %d\n%s", code, errs)
	}
	if v := seen.Load(); v != nil {
		t.Errorf("the stranger was sent %v", v)
	}
	if !strings.Contains(errs.String(), "nothing is started here") {
		t.Errorf("it did not try to start its own: %s", errs)
	}
}

func TestManyCommandsAtOnceStartOnePlane(t *testing.T) {
	e, p, _, errs := project(t)
	starts := atomic.Int32{}
	var got []string
	e.Detach = func(argv, env []string, dir, log string) error {
		starts.Add(1)
		got = append([]string{dir, log}, append(argv, env...)...)
		go func() {
			time.Sleep(20 * time.Millisecond) // it takes a moment to come up
			serve(t, p, nil)
		}()
		return nil
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			own := *e
			own.Err = &bytes.Buffer{}
			if _, err := own.client(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := starts.Load(); n != 1 {
		t.Errorf("%d control planes were started\n%s", n, errs)
	}
	want := []string{p.Root, p.Log(), "/lazy", "-C", p.Root, "up", "--detached", "PATH=/bin", names.EnvHome + "=" + p.Home}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestJSONIsTheOperationsOwnAnswer(t *testing.T) {
	req.Covers(t, "OT-008")
	e, p, out, errs := project(t)
	const said = `{"tasks":[],"unknown_to_this_version":{"n":12345678901234567890,"html":"<&>"}}`
	serve(t, p, map[string]http.HandlerFunc{"listTasks": answer(said)})
	if code := Main(t.Context(), e, []string{"list", "--json"}); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	var want bytes.Buffer
	if err := json.Indent(&want, []byte(said), "", "  "); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.String()+"\n", out.String()); d != "" {
		t.Error(d)
	}
	if errs.Len() > 0 {
		t.Errorf("stderr has %q", errs)
	}
}

const begunStart = `{"task_id":"t","code":"greet","turn_id":"op-7","operation_id":"op-7","status":"working"}`

func TestUnderJSONTheStoryIsOnStderr(t *testing.T) {
	e, p, out, errs := project(t)
	serve(t, p, map[string]http.HandlerFunc{
		"startTask": answer(begunStart),
		"awaitOperation": answer(`{"operation_id":"op-7","done":true,"status":200,"phases":[
			{"n":1,"of":1,"name":"launch runner","state":"done"}],"result":{"code":"greet","status":"working"}}`),
	})
	if code := Main(t.Context(), e, []string{"start", "greet", "--json"}); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if d := cmp.Diff("{\n  \"code\": \"greet\",\n  \"status\": \"working\"\n}\n", out.String()); d != "" {
		t.Error(d)
	}
	if !strings.Contains(errs.String(), "1/1 launch runner: done") {
		t.Errorf("stderr has %q", errs)
	}
}

func TestAFailedOperationFailsItsPhaseAndTheCommand(t *testing.T) {
	req.Covers(t, "OB-009")
	e, p, out, errs := project(t)
	serve(t, p, map[string]http.HandlerFunc{
		"startTask": answer(begunStart),
		"awaitOperation": answer(`{"operation_id":"op-7","done":true,"status":409,"phases":[
			{"n":1,"of":2,"name":"prepare workspace","state":"done"},{"n":2,"of":2,"name":"launch runner","state":"failed","note":"no space"}],
			"error":{"code":"turn_failed","message":"greet did not run: no space","next":["Free the disk."],"details":{}}}`),
	})
	if code := Main(t.Context(), e, []string{"start", "greet"}); code != 1 {
		t.Errorf("got exit code %d, want 1: work that had begun failed, nothing was refused", code)
	}
	if !strings.Contains(out.String(), "2/2 launch runner: failed") || !strings.Contains(out.String(), "no space") {
		t.Errorf("stdout has %q", out)
	}
	if d := cmp.Diff("lazy: greet did not run: no space\n  next: Free the disk.\n", errs.String()); d != "" {
		t.Error(d)
	}
}

func TestCtrlCLeavesTheWorkRunningAndGivesItsId(t *testing.T) {
	req.Covers(t, "HA-035", "OT-052")
	e, p, _, errs := project(t)
	ctx, press := context.WithCancel(t.Context())
	serve(t, p, map[string]http.HandlerFunc{
		"startTask": answer(begunStart),
		"awaitOperation": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client left
			press()
			<-r.Context().Done()
		},
	})
	if code := Main(ctx, e, []string{"start", "greet"}); code != 5 {
		t.Errorf("got exit code %d, want 5", code)
	}
	if d := cmp.Diff("lazy: start of greet is still running; operation op-7\n  next: lazy wait --operation op-7\n", errs.String()); d != "" {
		t.Error(d)
	}
}

func TestAnOperationIsGoneBackToByItsId(t *testing.T) {
	req.Covers(t, "OT-052")
	e, p, out, errs := project(t)
	asked := ""
	serve(t, p, map[string]http.HandlerFunc{
		"awaitOperation": func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				ID string `json:"operation_id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&in)
			asked = in.ID
			answer(`{"operation_id":"op-9","done":true,"status":200,"result":{"code":"greet","status":"complete","merge_sha":"0123456789abcdef"}}`)(w, r)
		},
	})
	if code := Main(t.Context(), e, []string{"wait", "--operation", "op-9"}); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if asked != "op-9" || !strings.Contains(out.String(), "Merged greet as 01234567.") {
		t.Errorf("asked for %q, said %q", asked, out)
	}
}

func TestABrokenConnectionIsNoFailureOfTheWork(t *testing.T) {
	live := t.Context()
	for _, c := range []struct {
		err  error
		op   string
		want string // operation to re-attach to, "" when the error stands
	}{
		{nil, "op", ""},
		{&client.LostError{Operation: "late", Err: errors.New("eof")}, "", "late"},
		{&client.LostError{Err: errors.New("eof")}, "op", "op"},
		{&client.LostError{Err: errors.New("eof")}, "", ""},
		{&client.UnreachableError{Base: "x", Err: errors.New("refused")}, "op", "op"},
		{&client.UnreachableError{Base: "x", Err: errors.New("refused")}, "", ""},
		{errors.New("refused by the plane"), "op", ""},
	} {
		got := ""
		if s, ok := errors.AsType[*stillError](goesOn(live, c.err, "start of x", c.op)); ok {
			got = s.id
		}
		if got != c.want {
			t.Errorf("%v with operation %q: got %q, want %q", c.err, c.op, got, c.want)
		}
	}
}
