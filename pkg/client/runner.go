package client

import (
	"context"
	"net/http"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// RunnerClient calls /runner for the supervisor of one run. Every call is short:
// none is held open.
type RunnerClient struct {
	Base  string
	Token string // the runner token; empty for Hello
	HTTP  *http.Client
	Wait  Wait
}

// Hello exchanges the start nonce for the run's credentials (CM-047).
func (c *RunnerClient) Hello(ctx context.Context, in turn.Hello) (turn.Welcome, error) {
	return runner[turn.Welcome](ctx, c, "hello", "", in)
}

// Beat is a sign of life; its answer carries stop, steering and permission.
func (c *RunnerClient) Beat(ctx context.Context, in turn.BeatIn) (turn.BeatOut, error) {
	return runner[turn.BeatOut](ctx, c, "beat", in.Turn, in)
}

// Report hands in what the run left.
func (c *RunnerClient) Report(ctx context.Context, in turn.Response) (turn.Ack, error) {
	return runner[turn.Ack](ctx, c, "report", in.Turn, in)
}

// TaskToken asks for the task's token anew (MC-012).
func (c *RunnerClient) TaskToken(ctx context.Context, in turn.TokenIn) (turn.TokenOut, error) {
	return runner[turn.TokenOut](ctx, c, "token", in.Turn, in)
}

// Git asks for an internal git operation to be recorded.
func (c *RunnerClient) Git(ctx context.Context, in turn.GitIn) (turn.GitOut, error) {
	return runner[turn.GitOut](ctx, c, "git", "", in)
}

// Upload asks for links into the task's vault, or moves its checkpoint pointer.
func (c *RunnerClient) Upload(ctx context.Context, in turn.UploadIn) (turn.UploadOut, error) {
	return runner[turn.UploadOut](ctx, c, "upload", "", in)
}

// Land says what a broker made of its landing; told again, it is the same.
func (c *RunnerClient) Land(ctx context.Context, in turn.LandIn) (turn.LandOut, error) {
	return runner[turn.LandOut](ctx, c, "land", "", in)
}

func runner[Out any](ctx context.Context, c *RunnerClient, op string, of id.Turn, in any) (Out, error) {
	var out Out
	body, err := encode(in)
	if err != nil {
		return out, err
	}
	q := request{http: c.HTTP, base: c.Base, path: "/runner/" + op, token: c.Token, body: body}
	if t := of.Trace(); t != "" {
		q.header = map[string]string{names.HeaderTrace: t}
	}
	err = c.Wait.do(ctx, func() error {
		r, err := q.send(ctx)
		if err != nil {
			return err
		}
		return r.answer(&out)
	})
	return out, err
}
