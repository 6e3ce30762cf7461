package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// The variables that a builder's agent is given, for a client that lazy does not
// know how to configure.
const (
	envBuilderURL    = "LAZY_MCP_URL"
	envBuilderToken  = "LAZY_MCP_TOKEN"
	envBuilderConfig = "LAZY_MCP_CONFIG"
)

type builderFlags struct {
	agent, resume string
	adopt         bool
}

func (e *Env) builderCommand() *cobra.Command {
	var f builderFlags
	c := &cobra.Command{
		Use:   "builder [flags] [-- command …]",
		Short: "Open an agent of your own that works with this project's tasks",
		Long: "builder starts an agent CLI on your machine, as you and without a sandbox, with lazy's tools for the whole\n" +
			"project: it can create tasks, start them, wait for them, review and accept them. It uses your own login of\n" +
			"that CLI. Its credential is issued for the session and withdrawn when it ends, and the conversation is\n" +
			"captured every 30 seconds. Any other MCP client can be started after --; it finds the address in\n" +
			envBuilderURL + ", the token in " + envBuilderToken + ", and a configuration file in " + envBuilderConfig + ".",
		Args: func(c *cobra.Command, words []string) error {
			if len(words) > 0 && c.ArgsLenAtDash() != 0 {
				return usage(c, "%s is no subcommand; a command of your own comes after --", line(words[0]))
			}
			return nil
		},
		RunE: func(c *cobra.Command, words []string) error { return e.builder(c.Context(), f, words) },
	}
	c.Flags().StringVar(&f.agent, "agent", "", "claude-code, codex or opencode; the first one installed by default")
	c.Flags().StringVar(&f.resume, "resume", "", "go on with this conversation (claude-code, codex)")
	c.Flags().BoolVar(&f.adopt, "import", false, "with --resume: take over a conversation that no builder session has led")
	list := &cobra.Command{
		Use: "list", Short: "List captured conversations", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := e.call(c.Context(), "listConversations", args{})
			if err != nil {
				return err
			}
			return show(e, out, e.printConversations)
		},
	}
	e.jsonFlag(list)
	c.AddCommand(list)
	return c
}

func (e *Env) printConversations(out op.Conversations) error {
	if len(out.Conversations) == 0 {
		return e.printf("No conversation has been captured. `lazy builder` leads one.\n")
	}
	for _, cv := range out.Conversations {
		live := ""
		if cv.Live {
			live = "  live"
		}
		if err := e.printf("%s  %s  %s  %s%s\n", line(cv.Session), cv.Updated.Format(time.DateTime), line(cv.Agent), line(cv.Title), live); err != nil {
			return err
		}
	}
	return nil
}

// builderSession is one launch.
type builderSession struct {
	label, token, url, file string
	agent                   string // as it is shown and stored
	session                 string // the conversation's id, when we know it
	argv, env               []string
}

// builder opens a session and stays until its agent ends. Its token is withdrawn
// on every way out (ID-010).
func (e *Env) builder(ctx context.Context, f builderFlags, own []string) error {
	if e.Getenv(names.EnvSocket) != "" {
		return fault.New(fault.Denied, "a task's agent cannot open a builder session: it would see more than its task").
			WithNext("Use the tools you have; lazy_raise what needs somebody else.")
	}
	c, err := e.client(ctx)
	if err != nil {
		return err
	}
	rpc, ok := c.(*client.Client)
	if !ok {
		return fmt.Errorf("open builder session: no address")
	}
	if f.resume != "" {
		if err := e.mayResume(ctx, rpc, &f); err != nil {
			return err
		}
	}
	dir, err := e.builderDir()
	if err != nil {
		return err
	}
	s := &builderSession{label: "builder-" + strings.ToLower(rand.Text()), url: rpc.Base + "/mcp/_", file: filepath.Join(dir, "mcp.json")}
	unlock, _, err := e.Lock(filepath.Join(dir, sessionLock))
	if err != nil {
		return fmt.Errorf("lock session: %w", err)
	}
	defer func() { unlock(); _ = os.RemoveAll(dir) }()
	var minted op.BuilderToken
	if err := rpc.Call(ctx, "mintBuilderToken", args{"label": s.label, "pid": os.Getpid()}, &minted); err != nil {
		return err
	}
	s.token = minted.Token
	defer e.revoke(context.WithoutCancel(ctx), rpc, s.label)
	if err := e.plan(s, f, own); err != nil {
		return err
	}
	store := &client.StorageClient{Base: rpc.Base, Token: s.token, HTTP: rpc.HTTP}
	if err := store.Call(ctx, "getStoragePath", struct{}{}, nil); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the conversation could not be captured (%s), so the session was not started", fault.Of(err).Public).
			WithNext("Run `lazy doctor`, then try again.")
	}
	if err := config.WritePrivate(s.file, s.configuration()); err != nil {
		return err
	}
	return e.lead(ctx, s, &healing{store: store, s: s, rpc: rpc})
}

// lead runs the agent with the capture beside it.
func (e *Env) lead(ctx context.Context, s *builderSession, h *healing) error {
	cp := &capture{session: s.session, agent: s.agent, find: e.finder(ctx, s), call: h.call}
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	var side sync.WaitGroup
	side.Go(func() { cp.run(live) })
	e.note("builder session %s: %s", s.label, line(s.agent))
	// An interrupt of the terminal is the agent's to take; ending it is its own.
	err := e.Session(context.WithoutCancel(ctx), s.argv, append(slices.Clone(e.Environ()), s.env...))
	stop()
	side.Wait()
	cp.last(context.WithoutCancel(ctx))
	for _, why := range cp.failures() {
		e.note("capture: %s", why)
	}
	if cp.session != "" && cp.sent > 0 && isConversation(cp.session) {
		e.note("go on with it: lazy builder --resume %s", cp.session)
	}
	if err != nil {
		return fault.Wrap(fault.Failed, err, "%s ended: %v", line(s.agent), err)
	}
	return nil
}

func (e *Env) revoke(ctx context.Context, c Client, label string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := c.Call(ctx, "revokeMcpToken", args{"label": label}, nil); err != nil {
		e.note("the session's token could not be withdrawn (%s); it is worth nothing once 90 s have passed and a newer one is needed", fault.Of(err).Public)
	}
}

// builderDir is a private folder of this launch, outside the repository (ID-007).
func (e *Env) builderDir() (string, error) {
	home, err := config.Home(e.Getenv)
	if err != nil {
		return "", err
	}
	parent := filepath.Join(home, "builders")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "the folder %s cannot be made", parent)
	}
	dir, err := os.MkdirTemp(parent, "session-")
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "no folder can be made in %s", parent)
	}
	return dir, nil
}

// configuration is the MCP configuration in the form most clients read.
func (s *builderSession) configuration() []byte {
	type server struct {
		Type    string            `json:"type"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	}
	b, _ := json.MarshalIndent(map[string]map[string]server{"mcpServers": {
		"lazy": {"http", s.url, map[string]string{"Authorization": "Bearer " + s.token}},
	}}, "", "  ")
	return append(b, '\n')
}

// plan says what to run. The token is never an argument, which every user of the
// machine can read.
func (e *Env) plan(s *builderSession, f builderFlags, own []string) error {
	s.env = []string{envBuilderURL + "=" + s.url, envBuilderToken + "=" + s.token, envBuilderConfig + "=" + s.file}
	if len(own) > 0 {
		s.argv, s.agent = own, filepath.Base(own[0])
		return nil
	}
	programs := [][2]string{{"claude-code", "claude"}, {"codex", "codex"}, {"opencode", "opencode"}}
	var name string
	for _, p := range programs {
		if f.agent != "" && f.agent != p[0] {
			continue
		}
		if at, err := e.LookPath(p[1]); err == nil {
			name, s.argv = p[0], []string{at}
			break
		}
	}
	if name == "" {
		what := "no agent CLI is installed"
		if f.agent != "" {
			what = line(f.agent) + " is not installed, or lazy does not know how to configure it"
		}
		return fault.New(fault.NotFound, "%s, so no session was opened", what).
			WithNext("Install claude, codex or opencode, or name any MCP client: `lazy builder -- command …`.")
	}
	s.agent = name
	switch name {
	case "claude-code":
		s.session = f.resume
		how := "--resume"
		if s.session == "" {
			s.session, how = uuid.NewString(), "--session-id"
		}
		s.argv = append(s.argv, "--mcp-config", s.file, how, s.session)
	case "codex":
		s.session = f.resume
		s.argv = append(s.argv, "-c", fmt.Sprintf("mcp_servers.lazy.url=%q", s.url), "-c", fmt.Sprintf("mcp_servers.lazy.bearer_token_env_var=%q", envBuilderToken))
		if s.session != "" {
			s.argv = append(s.argv, "resume", s.session)
		}
	case "opencode":
		b, err := json.Marshal(map[string]any{"mcp": map[string]any{"lazy": map[string]any{
			"type": "remote", "url": s.url, "enabled": true, "headers": map[string]string{"Authorization": "Bearer " + s.token},
		}}})
		if err != nil {
			return fmt.Errorf("describe tools: %w", err)
		}
		s.env = append(s.env, "OPENCODE_CONFIG_CONTENT="+string(b))
	}
	return nil
}

// mayResume refuses a conversation that no builder session has led (BL-018,
// CO-015), unless it is taken over on purpose.
func (e *Env) mayResume(ctx context.Context, c Client, f *builderFlags) error {
	var out op.Conversations
	if err := c.Call(ctx, "listConversations", args{}, &out); err != nil {
		return err
	}
	if !isConversation(f.resume) {
		return nothingToResume(f.resume, "one is named by its id, never by its age", len(out.Conversations) > 0)
	}
	i := slices.IndexFunc(out.Conversations, func(cv op.ConversationShown) bool { return cv.Session == f.resume })
	agent, _, here := e.transcript(f.resume)
	switch {
	case i >= 0 && out.Conversations[i].Live:
		return fault.New(fault.Conflict, "conversation %s is being led by another session", f.resume)
	case !here:
		return nothingToResume(f.resume, "its transcript is not on this machine", len(out.Conversations) > 0)
	case f.agent != "" && f.agent != agent:
		return nothingToResume(f.resume, "it was led with "+agent, len(out.Conversations) > 0)
	case i < 0 && !f.adopt:
		return refusal.Of(refusal.ImportRequired, f.resume)
	}
	f.agent = agent
	return nil
}

// nothingToResume refuses a word that names no conversation which can go on, with
// what there is instead.
func nothingToResume(word, why string, captured bool) error {
	err := refusal.Of(refusal.NothingToResume, line(word), why)
	if captured {
		return err.WithNext("`lazy builder list` shows the ids of those that were captured.")
	}
	return err.WithNext("None has been captured in this project. `lazy builder` begins one.")
}
