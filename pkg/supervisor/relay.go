package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// relay serves the agent's tools on a unix socket (AG-024, CM-009). Whatever the
// agent sends beside a tool's name and arguments is dropped: identity, turn,
// epoch and scope are ours to add, and nothing else of the control plane is
// reachable from here.
type relay struct {
	r *run
	s *http.Server
	// wait bounds how long a call waits for a control plane that cannot be
	// reached (MC-010).
	wait    time.Duration
	work    context.Context //nolint:containedctx // a relayed call outlives the request that asked for it (RP-006)
	commits sync.WaitGroup
}

// commitGrace is how long a commit asked for just before the agent ended may take
// before it is cut off; what was recorded by then is finished.
const commitGrace = 10 * time.Second

// serveTools listens until the returned function is called. A commit under way is
// finished then, so that it is part of the turn; other calls are cut off.
func (r *run) serveTools(ctx context.Context) (stop func(), err error) {
	l, err := r.listen(ctx, toolSocket)
	if err != nil {
		return nil, err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &relay{r: r, wait: names.ReconnectWindow, work: work}
	s.s = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.s.Serve(l)
	}()
	return func() {
		_ = l.Close() // no new calls
		cut := time.AfterFunc(commitGrace, cancel)
		s.commits.Wait()
		cut.Stop()
		cancel()
		_ = s.s.Close()
		<-done
	}, nil
}

// toolOf returns the tool a path names: /tool/{name}, or the tool route of the
// control plane, whose segment is not believed.
func toolOf(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "/tool/")
	if !ok {
		rest, ok = strings.CutPrefix(path, "/mcp/")
		if _, tool, two := strings.Cut(rest, "/"); ok && two {
			rest = tool
		} else {
			return "", false
		}
	}
	return rest, ok && rest != "" && !strings.Contains(rest, "/")
}

// ServeHTTP answers one call.
func (s *relay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	tool, ok := toolOf(q.URL.Path)
	if !ok {
		answer(w, refuse(fault.New(fault.NotFound, "only tools are served here").
			WithNext("Call POST /tool/{name} with {\"arguments\":{…}}, or use `lazy-agent call`.")))
		return
	}
	if q.Method != http.MethodPost {
		answer(w, refuse(fault.New(fault.Invalid, "a tool is called with POST")))
		return
	}
	args, err := readArguments(w, q, s.r.Catalogue(), tool)
	if err == nil {
		err = s.admit(tool, args)
	}
	if err != nil {
		answer(w, refuse(err))
		return
	}
	if q.Header.Get(names.HeaderHeartbeat) == "" {
		answer(w, s.call(tool, args, func() {}))
		return
	}
	s.framed(w, tool, args)
}

// framed answers with heartbeats every 5 s, which the agent's tool server turns
// into progress (MC-022, MC-023).
func (s *relay) framed(w http.ResponseWriter, tool string, args json.RawMessage) {
	w.Header().Set("Content-Type", envelope.ContentType)
	out := envelope.NewWriter(w, func() { _ = http.NewResponseController(w).Flush() })
	_ = out.Open()
	got := make(chan envelope.Reply, 1)
	go func() { got <- s.call(tool, args, func() {}) }()
	tick := time.NewTicker(names.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case reply := <-got:
			_ = out.Close(reply)
			return
		case <-tick.C:
			_ = out.Beat() // an agent that has gone merely forgoes the answer
		}
	}
}

func answer(w http.ResponseWriter, r envelope.Reply) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body)
}

func refuse(err error) envelope.Reply {
	return envelope.Refuse(err, envelope.To("mcp", identity.Task), "")
}

// readArguments takes the arguments object out of a body and nothing else.
func readArguments(w http.ResponseWriter, q *http.Request, cat *op.Catalogue, tool string) (json.RawMessage, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, q.Body, names.BodyMax))
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, refusal.Of(refusal.BodyTooLarge, fmt.Sprintf("larger than %d bytes", big.Limit))
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the body could not be read")
	}
	if len(strings.TrimSpace(string(b))) == 0 {
		if o, ok := cat.Tool(tool); ok && len(o.In.Required) > 0 {
			return nil, refusal.Of(refusal.InvalidArguments, "body", `{"arguments":{…}}`, "nothing")
		}
		return json.RawMessage("{}"), nil
	}
	var body struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(b, &body); err != nil || len(body.Arguments) == 0 || body.Arguments[0] != '{' {
		return nil, refusal.Of(refusal.InvalidArguments, "body", `{"arguments":{…}}`, "something else")
	}
	return body.Arguments, nil
}

// admit applies what this end can decide: the scope of a read-only turn, whose
// other guard is the control plane (AG-011), and the schema (OT-021).
func (s *relay) admit(tool string, args json.RawMessage) error {
	o, known := s.r.Catalogue().Tool(tool)
	if s.r.cmd.ReadOnly && (!known || o.Effect != op.Read) {
		return refusal.Of(refusal.ReadOnlyTurn, tool)
	}
	if !known || !o.Agent {
		return nil // the control plane knows why not
	}
	return o.Validate(identity.Task, args)
}

// call makes one relayed call and notes what it says about the turn.
func (s *relay) call(tool string, args json.RawMessage, beat func()) envelope.Reply {
	var reply envelope.Reply
	switch tool {
	case "lazy_commit":
		reply = s.commit(args, beat)
	case syncTool:
		reply = s.sync(args, beat)
	default:
		reply = s.forward(s.work, client.ToolCall{Tool: tool, Arguments: args, Beat: beat})
	}
	if reply.Status < 400 && !toolFailed(reply.Body) {
		s.note(tool, args)
	}
	return reply
}

func toolFailed(body json.RawMessage) bool {
	var r struct {
		IsError bool `json:"isError"`
	}
	return json.Unmarshal(body, &r) == nil && r.IsError
}

// note counts a completed step and remembers what the turn has declared.
func (s *relay) note(tool string, args json.RawMessage) {
	s.r.step()
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	switch tool {
	case "lazy_final":
		s.r.declared = true
	case "lazy_raise":
		var in struct {
			Blocking bool `json:"blocking"`
		}
		_ = json.Unmarshal(args, &in)
		s.r.blocking = s.r.blocking || in.Blocking
	}
}

// forward sends a call to the control plane with our stamps, comes back at each
// hop's end, and returns its answer unchanged.
func (s *relay) forward(ctx context.Context, call client.ToolCall) envelope.Reply {
	reply, err := s.send(ctx, call)
	if err != nil {
		return refuse(unanswered(call.Tool, err))
	}
	return envelope.Reply{Status: reply.Status, Body: reply.Raw}
}

// send makes a call. One that was refused for its token was not done, and is made
// once more where another token is to be had (MC-012).
func (s *relay) send(ctx context.Context, call client.ToolCall) (client.ToolReply, error) {
	token, n := s.r.link.present()
	reply, err := s.sendAs(ctx, call, token)
	if err != nil || reply.Status != http.StatusUnauthorized || !s.r.link.refresh(ctx, s.r.start, n) {
		return reply, err
	}
	token, _ = s.r.link.present()
	return s.sendAs(ctx, call, token)
}

func (s *relay) sendAs(ctx context.Context, call client.ToolCall, token string) (client.ToolReply, error) {
	c := client.ToolClient{
		Base: s.r.link.base, Token: token, Segment: string(s.r.start.Task), HTTP: s.r.link.http, NewID: s.r.NewID,
		Wait: client.Wait{Window: s.wait},
	}
	call.Stamp.Turn, call.Stamp.Epoch = string(s.r.start.Turn), s.r.start.Epoch
	return c.Call(ctx, call)
}

// unanswered words a call without an answer: one that was never sent can be made
// again, one that may have been done is reported and never sent again (MC-011).
func unanswered(tool string, err error) error {
	away, lost := apart(err)
	switch {
	case away:
		return fault.Wrap(fault.Unavailable, err, "the control plane cannot be reached, so %s was not done", tool).
			WithNext("Try again later. If it stays away, stop, and describe in your answer what is left to do.")
	case lost:
		return fault.Wrap(fault.Unavailable, err, "the answer to %s was lost on its way, so it may have been done or not", tool).
			WithNext("Look before you call it again, for example with lazy_show.").WithDetail("lost", true)
	}
	return err
}

// commit makes the agent's commit through the broker (UW-013). The control
// plane's answer to the recording is the agent's answer, once the branch has
// moved.
func (s *relay) commit(args json.RawMessage, beat func()) envelope.Reply {
	s.commits.Add(1)
	defer s.commits.Done()
	var in struct {
		Message string   `json:"message"`
		Files   []string `json:"files"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return refuse(refusal.Of(refusal.InvalidArguments, "arguments", "a message and files", "something else"))
	}
	var reply envelope.Reply
	record := func(ctx context.Context, ev identity.Commit, key string) error {
		got, err := s.send(ctx, client.ToolCall{
			Tool: "lazy_commit", Arguments: args, Key: key, Beat: beat, Stamp: client.Stamp{Commit: &ev},
		})
		if err != nil {
			return err
		}
		reply = envelope.Reply{Status: got.Status, Body: got.Raw}
		if f := got.Fault(); f != nil {
			return f
		}
		return nil
	}
	_, err := s.r.broker.commit(s.work, in.Message, in.Files, s.r.NewID(), record)
	if err == nil {
		s.r.Crash("commit.answered")
		return reply
	}
	if reply.Status >= 400 {
		return reply // the control plane's own refusal, unchanged
	}
	if away, lost := apart(err); away || lost {
		return refuse(unanswered("lazy_commit", err))
	}
	if errors.Is(err, git.ErrNothing) {
		return refuse(fault.Of(err).WithNext("Change something first; what you changed may be ignored by .gitignore."))
	}
	if fault.KindOf(err) == fault.Internal {
		s.r.log.Error("commit", "err", err)
	}
	return refuse(err)
}
