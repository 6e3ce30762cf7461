package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// nonceOf is the start secret of a run, lzn_<tenant>_<task>_<epoch>_<derived>. Like
// a token's text it is derived and not stored, so that a launch whose answer was
// lost and its repetition hand out the same one.
func (a *App) nonceOf(t task.Task, r turn.Run) string {
	head := "lzn_" + t.Tenant + "_" + string(t.ID) + "_" + strconv.FormatInt(r.Epoch, 10) + "_"
	mac := hmac.New(sha256.New, a.Key)
	mac.Write([]byte(head + string(r.Turn) + "_" + r.Salt))
	return head + hex.EncodeToString(mac.Sum(nil))
}

// Hello exchanges the start nonce for the run's credentials and its command
// (AG-025, CM-047). A nonce works once, which the run's own row decides; a second
// claim is refused and is an alarm. Repeated under the same key it is the same
// hello, whose answer was lost.
func (a *App) Hello(ctx context.Context, h turn.Hello) (turn.Welcome, error) {
	no := refusal.Of(refusal.Unauthenticated)
	parts := strings.Split(h.Nonce, "_")
	if len(parts) != 5 || parts[0] != "lzn" || parts[1] == "" || strings.ContainsAny(parts[1]+parts[2], "# \x00") {
		return turn.Welcome{}, no
	}
	epoch, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || epoch < 1 {
		return turn.Welcome{}, no
	}
	t := task.Task{Tenant: parts[1], ID: id.Task(parts[2])}
	r, ok, err := a.loadRun(ctx, t, epoch)
	if err != nil {
		return turn.Welcome{}, err
	}
	if !ok || !hmac.Equal([]byte(a.nonceOf(t, r)), []byte(h.Nonce)) {
		return turn.Welcome{}, no
	}
	claimant := ""
	if h.Key != "" {
		claimant = identity.Hash(h.Key)
	}
	claimable := func(r turn.Run) bool {
		switch {
		case !r.Hello.IsZero() && (claimant == "" || claimant != r.Claimant):
			a.Log.ErrorContext(ctx, "a start nonce was presented twice", names.AttrMetric, names.MetricNonce, "task", t.ID.Short(), "turn", r.Turn, "epoch", r.Epoch)
			return false
		case a.Now().After(r.NonceUntil):
			return false
		}
		return true
	}
	if !claimable(r) {
		return turn.Welcome{}, no
	}
	o, t, err := a.operation(ctx, t.Tenant, string(r.Turn))
	if err != nil {
		return turn.Welcome{}, err
	}
	if t.Epoch != epoch || !t.Claimed {
		return turn.Welcome{}, fenced(t, epoch)
	}
	w, err := a.welcome(ctx, t, o, r)
	if err != nil {
		return turn.Welcome{}, err
	}
	taken := false
	err = a.driveRun(ctx, t, epoch, func(r *turn.Run) (change, bool, error) {
		if taken = claimable(*r); !taken || !r.Hello.IsZero() {
			return change{}, false, nil
		}
		r.Hello, r.State, r.Beat, r.Claimant = a.Now(), "launched", a.Now(), claimant
		return change{follow: true}, true, nil // the launch's token is answered
	})
	if err != nil {
		return turn.Welcome{}, err
	}
	if !taken {
		return turn.Welcome{}, no
	}
	if r.TokenFor == forBroker { // which has no agent that could use a tool
		w.RunnerToken, _, err = a.ensure(ctx, runnerToken(t, r))
	} else {
		w.RunnerToken, w.TaskToken, err = a.mintRun(ctx, t, r)
	}
	if err != nil {
		return turn.Welcome{}, err
	}
	return w, nil
}

// welcome is what a run is told to do: to run a turn, or to merge for an accept.
func (a *App) welcome(ctx context.Context, t task.Task, o Op, r turn.Run) (w turn.Welcome, err error) {
	if r.TokenFor == forBroker {
		d, kept := a.repo(t).(Depot)
		if !kept || t.Status != task.Merging || !ofAccept(t, identity.Caller{Turn: r.Turn}) {
			return w, fenced(t, r.Epoch)
		}
		w.Command = turn.Command{Turn: r.Turn, Task: t.ID, Code: t.Code, Epoch: r.Epoch}
		w.Landing, err = a.landing(ctx, t, d)
		return w, err
	}
	if w.Command, err = a.command(ctx, t, o, r); err != nil {
		return w, err
	}
	if w.Model, err = a.access(ctx, t); err != nil {
		return w, err
	}
	w.Vault, err = a.taskVault(ctx, t)
	return w, err
}
