package lambdafake_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lazyplane/lazyplane/integration/lambdafake"
	"github.com/lazyplane/lazyplane/pkg/edge/lambdahttp"
)

// The test's own program is the function.
func TestMain(m *testing.M) {
	switch os.Getenv("FUNCTION") {
	case "":
		os.Exit(m.Run())
	case "broken":
		os.Exit(3)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /f/stream", func(w http.ResponseWriter, r *http.Request) {
		to, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Kind", "stream")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintln(w, "first")
		get(string(to)) // answers once the first line has arrived
		fmt.Fprintln(w, "second")
	})
	mux.HandleFunc("POST /f/hang", func(_ http.ResponseWriter, _ *http.Request) { select {} })
	mux.HandleFunc("POST /f/stall", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "first")
		select {}
	})
	mux.HandleFunc("POST /f/version", func(w http.ResponseWriter, r *http.Request) {
		if to, _ := io.ReadAll(r.Body); len(to) > 0 {
			get(string(to))
		}
		fmt.Fprint(w, os.Args[0])
	})
	mux.HandleFunc("POST /f/exit", func(http.ResponseWriter, *http.Request) { os.Exit(1) })
	lambda.Start(lambdahttp.Handler(mux))
}

func get(url string) {
	res, err := http.Get(url)
	if err == nil {
		_ = res.Body.Close()
	}
}

func start(t *testing.T, c lambdafake.Config) (*lambdafake.Function, *httptest.Server) {
	t.Helper()
	if c.Bin == "" {
		c.Bin = os.Args[0]
	}
	if c.Env == nil {
		c.Env = append(os.Environ(), "FUNCTION=http")
	}
	c.Name = "f"
	f, err := lambdafake.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	srv := httptest.NewServer(lambdafake.Gateway(map[string]*lambdafake.Function{"f": f}))
	t.Cleanup(srv.Close)
	return f, srv
}

func post(t *testing.T, url, body string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return http.DefaultClient.Do(r)
}

func TestTheFirstChunkLeavesBeforeTheHandlerEnds(t *testing.T) {
	arrived := make(chan struct{})
	gate := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-arrived:
		case <-r.Context().Done():
		}
	}))
	defer gate.Close()
	_, srv := start(t, lambdafake.Config{Timeout: 5 * time.Minute})
	res, err := post(t, srv.URL+"/f/stream", gate.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted || res.Header.Get("X-Kind") != "stream" {
		t.Errorf("%s, %v", res.Status, res.Header)
	}
	first := make([]byte, len("first\n"))
	if _, err := io.ReadFull(res.Body, first); err != nil {
		t.Fatal(err)
	}
	close(arrived) // the handler could not have gone on before
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(first)+string(rest) != "first\nsecond\n" {
		t.Errorf("got %q and %q, %v", first, rest, err)
	}
}

func TestADeadlineIsAnsweredNotCut(t *testing.T) {
	_, srv := start(t, lambdafake.Config{Timeout: 2 * time.Second, Slack: time.Minute})
	var wg sync.WaitGroup
	wg.Go(func() {
		res, err := post(t, srv.URL+"/f/hang", "")
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(b), `"code":"unavailable"`) || err != nil {
			t.Errorf("%s %s, %v", res.Status, b, err)
		}
	})
	wg.Go(func() {
		res, err := post(t, srv.URL+"/f/stall", "")
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err == nil || string(b) != "first\n" {
			t.Errorf("an answer that broke off reads as whole: %q", b)
		}
	})
	wg.Wait()
}

func TestAnInstanceThatDiesOrHangsFailsItsInvocationOnly(t *testing.T) {
	f, srv := start(t, lambdafake.Config{})
	res, err := post(t, srv.URL+"/f/exit", "")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadGateway {
		t.Errorf("a dead instance: %s", res.Status)
	}
	res, err = post(t, srv.URL+"/f/version", "")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || len(f.Inits()) != 2 {
		t.Errorf("the next one: %s after %d inits", res.Status, len(f.Inits()))
	}
	broken, _ := start(t, lambdafake.Config{Env: []string{"FUNCTION=broken"}})
	var e *lambdafake.Error
	if _, err := broken.Call(t.Context(), []byte("{}")); !errors.As(err, &e) || e.Type != "Runtime.ExitError" {
		t.Errorf("a program that does not start: %v", err)
	}
}

func TestADeployEndsNoInvocation(t *testing.T) {
	here := t.TempDir() + "/other"
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(here, b, 0o755); err != nil {
		t.Fatal(err)
	}
	asked, deployed := make(chan struct{}), make(chan struct{})
	gate := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		select {
		case <-deployed:
		case <-r.Context().Done():
		}
	}))
	defer gate.Close()
	f, srv := start(t, lambdafake.Config{Timeout: 5 * time.Minute})
	answered := make(chan string, 1)
	go func() {
		res, err := post(t, srv.URL+"/f/version", gate.URL)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answered <- string(b)
	}()
	<-asked
	f.Deploy(here)
	res, err := post(t, srv.URL+"/f/version", "")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); string(b) != here {
		t.Errorf("after the deploy %s answers", b)
	}
	close(deployed)
	if got := <-answered; got != os.Args[0] {
		t.Errorf("the invocation from before was answered by %s", got)
	}
}
