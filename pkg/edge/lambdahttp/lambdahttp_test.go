package lambdahttp_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lazyplane/lazyplane/pkg/edge/lambdahttp"
)

func call(ctx context.Context, t *testing.T, h http.HandlerFunc) *events.APIGatewayProxyStreamingResponse {
	t.Helper()
	out, err := lambdahttp.Handler(h)(ctx, events.APIGatewayProxyRequest{HTTPMethod: "POST", Path: "/x"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheEventIsTheRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	out, err := lambdahttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Add("Set-Cookie", "a")
		w.Header().Add("Set-Cookie", "b")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("Too", "late")
	}))(t.Context(), events.APIGatewayProxyRequest{
		HTTPMethod: "PUT", Path: "/rpc/a b", MultiValueQueryStringParameters: map[string][]string{"q": {"1", "2"}},
		Headers: map[string]string{"host": "h", "x-one": "1"}, MultiValueHeaders: map[string][]string{"x-two": {"a", "b"}},
		Body: base64.StdEncoding.EncodeToString([]byte{0, 255}), IsBase64Encoded: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(out.Body); err != nil {
		t.Fatal(err)
	}
	if got.Method != "PUT" || got.URL.Path != "/rpc/a b" || got.Host != "h" || got.Header.Get("X-One") != "1" ||
		strings.Join(got.Header["X-Two"], "") != "ab" || strings.Join(got.URL.Query()["q"], "") != "12" ||
		got.ContentLength != 2 || string(body) != "\x00\xff" {
		t.Errorf("the handler saw %s %s %v, body %q", got.Method, got.URL, got.Header, body)
	}
	if out.StatusCode != http.StatusTeapot || strings.Join(out.MultiValueHeaders["Set-Cookie"], "") != "ab" || out.MultiValueHeaders["Too"] != nil {
		t.Errorf("the answer is %d %v", out.StatusCode, out.MultiValueHeaders)
	}
	if _, err := lambdahttp.Handler(http.NotFoundHandler())(t.Context(), events.APIGatewayProxyRequest{HTTPMethod: "GET", Body: "%", IsBase64Encoded: true}); err == nil {
		t.Error("a body that is not base64 is taken")
	}
}

func TestWhatIsWrittenLeavesBeforeTheHandlerEnds(t *testing.T) {
	next := make(chan struct{})
	out := call(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "first")
		<-next
		fmt.Fprint(w, "second")
	})
	b := make([]byte, 5)
	if _, err := io.ReadFull(out.Body, b); err != nil || string(b) != "first" || out.StatusCode != http.StatusOK {
		t.Fatalf("%d %q, %v", out.StatusCode, b, err)
	}
	close(next)
	if rest, err := io.ReadAll(out.Body); err != nil || string(rest) != "second" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestAHandlerThatOutlastsItsFunctionIsAnsweredForInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		told := make(chan time.Duration, 1)
		free := make(chan struct{})
		out := call(ctx, t, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			told <- time.Since(began)
			<-free
			if _, err := fmt.Fprint(w, "too late"); err == nil {
				t.Error("a late answer is taken for one")
			}
		})
		at := time.Since(began)
		b, err := io.ReadAll(out.Body)
		if err != nil || out.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(b), "unavailable") {
			t.Errorf("%d %s, %v", out.StatusCode, b, err)
		}
		if by := <-told; by != 30*time.Second-lambdahttp.Margin || at != 30*time.Second-lambdahttp.Last {
			t.Errorf("told after %s, answered after %s", by, at)
		}
		close(free)
	})
}

func TestAnAnswerThatDoesNotEndBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		out := call(ctx, t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "first")
			time.Sleep(time.Hour)
		})
		if b, err := io.ReadAll(out.Body); err == nil || string(b) != "first" {
			t.Errorf("%q, %v", b, err)
		}
		time.Sleep(2 * time.Hour)
	})
	out := call(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "first")
		panic("no")
	})
	if b, err := io.ReadAll(out.Body); err == nil || string(b) != "first" {
		t.Errorf("%q, %v", b, err)
	}
	out = call(t.Context(), t, func(http.ResponseWriter, *http.Request) { panic("no") })
	if _, err := io.ReadAll(out.Body); err == nil || out.StatusCode != http.StatusInternalServerError {
		t.Errorf("%d, %v", out.StatusCode, err)
	}
}
