package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/gateway"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestWhatTheCallsOfARunCameToIsToldAtOnce(t *testing.T) {
	req.Covers(t, "FC-011")
	status := make(chan int, 1)
	r := newRig(t, model.Anthropic, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(<-status)
		_, _ = io.WriteString(w, `{"type":"message"}`)
	})
	g := r.gateway
	for _, c := range []struct{ status, calls, row int }{{529, 1, 1}, {503, 2, 2}, {200, 3, 0}, {429, 4, 1}} {
		status <- c.status
		r.ask(t, http.MethodPost, "/v1/messages", "{}")
		<-g.News()
		s := g.Seen()
		if s.Calls != c.calls || s.Row != c.row || (s.Last == nil) != (c.row == 0) || g.Last() != s.Last {
			t.Errorf("after %d: %+v", c.status, s)
		}
	}
	g.Begin()
	if s := g.Seen(); s != (gateway.Seen{}) {
		t.Errorf("at the beginning of a run: %+v", s)
	}
}

// The event that ends an answer of Responses repeats all of it, so it may be as
// long as an answer can get, or longer than is kept of a line.
func TestALongAnswerIsCompleteWhenItSaysSo(t *testing.T) {
	for size, output := range map[int]int64{3 << 20: 7, 5 << 20: 0} {
		r := newRig(t, model.OpenAI, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: response.completed\ndata: {\"response\":{\"model\":\"m\",\"output\":%q,\"usage\":{\"output_tokens\":7}},\"type\":\"response.completed\"}\n\n",
				strings.Repeat("x", size))
		})
		r.ask(t, http.MethodPost, "/v1/responses", "{}")
		<-r.gateway.News()
		if f := r.gateway.Last(); f != nil {
			t.Errorf("%d bytes: %+v", size, f)
		}
		if u := r.gateway.Usage(); len(u) != 1 || u[0].Output != output {
			t.Errorf("%d bytes: usage %+v", size, u)
		}
	}
}
