package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/op"
)

// healing is a session's way to the store. When its token is refused it asks for
// the session's token anew, with the person's own credential, once a call; the
// file that the agent's tools are configured by is written anew with it (MC-012,
// MC-020). It is used by one goroutine at a time.
type healing struct {
	store *client.StorageClient
	s     *builderSession
	rpc   Client
}

func (h *healing) call(ctx context.Context, method string, params, out any) error {
	err := h.store.Call(ctx, method, params, out)
	if fault.KindOf(err) != fault.Unauthenticated {
		return err
	}
	var minted op.BuilderToken
	again := h.rpc.Call(ctx, "mintBuilderToken", args{"label": h.s.label, "pid": os.Getpid()}, &minted)
	if again != nil || minted.Token == "" || minted.Token == h.store.Token {
		return err // the failure stands
	}
	h.store.Token, h.s.token = minted.Token, minted.Token
	if err := config.WritePrivate(h.s.file, h.s.configuration()); err != nil {
		return err
	}
	return h.store.Call(ctx, method, params, out)
}

// errNoTranscript is no failure: the agent may not have written yet.
var errNoTranscript = errors.New("the agent has written no transcript yet")

// isConversation reports whether a word has the form of a conversation's id.
func isConversation(word string) bool { return uuid.Validate(word) == nil }

// transcript finds a conversation on this machine, and the agent it was led with.
func (e *Env) transcript(session string) (agent, path string, ok bool) {
	for _, at := range [][2]string{
		{"claude-code", filepath.Join(e.claudeDir(), "projects", "*", session+".jsonl")},
		{"codex", filepath.Join(e.codexSessions(), "*", "*", "*", "rollout-*-"+session+".jsonl")},
	} {
		found, err := filepath.Glob(at[1])
		if err != nil || len(found) == 0 {
			continue
		}
		if fi, err := os.Lstat(found[0]); err == nil && fi.Mode().IsRegular() {
			return at[0], found[0], true
		}
	}
	return "", "", false
}

func (e *Env) claudeDir() string {
	if dir := e.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(e.Getenv("HOME"), ".claude")
}

func (e *Env) codexSessions() string {
	dir := e.Getenv("CODEX_HOME")
	if dir == "" {
		dir = filepath.Join(e.Getenv("HOME"), ".codex")
	}
	return filepath.Join(dir, "sessions")
}

// finder returns how the transcript of a session is found. Claude Code is told
// its conversation's id. Codex draws one itself: it is the one whose transcript a
// process of this session holds open. Where that cannot be seen, or is over, it is
// the only one that began in this folder since the launch. It is never simply the
// newest (BL-012).
func (e *Env) finder(ctx context.Context, s *builderSession) func(session string, over bool) (string, string, error) {
	if s.agent == "opencode" {
		return e.opencodeWatch(ctx, s).find
	}
	if s.agent != "codex" {
		return func(session string, _ bool) (string, string, error) {
			if session != "" {
				if _, path, ok := e.transcript(session); ok {
					return session, path, nil
				}
			}
			return session, "", errNoTranscript
		}
	}
	w := &codexWatch{dir: e.codexSessions(), token: envBuilderToken + "=" + s.token, cwd: e.Dir, beside: e.besides(s)}
	w.before = w.files()
	return func(session string, over bool) (string, string, error) {
		if id, path := w.held(); path != "" {
			return id, path, nil
		}
		if session != "" {
			if _, path, ok := e.transcript(session); ok {
				return session, path, nil
			}
		}
		if !over {
			return session, "", errNoTranscript
		}
		return w.only()
	}
}

// besides counts the other builder sessions that are open on this machine.
func (e *Env) besides(s *builderSession) func() int {
	own := filepath.Dir(s.file)
	return func() int {
		all, err := filepath.Glob(filepath.Join(filepath.Dir(own), "session-*"))
		if err != nil {
			return 1
		}
		n := 0
		for _, d := range all {
			if d == own {
				continue
			}
			unlock, mine, err := e.Lock(filepath.Join(d, sessionLock))
			if mine {
				unlock() // what a session left that was killed
			}
			if err != nil || !mine {
				n++
			}
		}
		return n
	}
}

// sessionLock is held in the folder of a builder session for as long as it is open.
const sessionLock = "lock"

// codexWatch finds the conversation of one launch of Codex.
type codexWatch struct {
	dir    string // of all transcripts
	token  string // variable that every process of the session has
	cwd    string
	before []string
	beside func() int
}

func (w *codexWatch) files() []string {
	found, err := filepath.Glob(filepath.Join(w.dir, "*", "*", "*", "rollout-*.jsonl"))
	if err != nil {
		return nil
	}
	return found
}

// rolloutID reads the conversation's id out of the name of its transcript.
func rolloutID(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
	if n := len(name) - 36; n > 0 && isConversation(name[n:]) {
		return name[n:]
	}
	return ""
}

// held is the transcript that a process of this session holds open, "" when there
// is none or the system does not show it.
func (w *codexWatch) held() (session, path string) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return "", ""
	}
	dir, err := filepath.EvalSymlinks(w.dir)
	if err != nil {
		return "", ""
	}
	for _, at := range all {
		env, err := os.ReadFile(at)
		if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(b []byte) bool { return string(b) == w.token }) {
			continue
		}
		fds, err := os.ReadDir(filepath.Join(filepath.Dir(at), "fd"))
		if err != nil {
			continue
		}
		slices.SortFunc(fds, func(a, b os.DirEntry) int { return number(b.Name()) - number(a.Name()) })
		for _, fd := range fds {
			to, err := os.Readlink(filepath.Join(filepath.Dir(at), "fd", fd.Name()))
			if err != nil || !strings.HasPrefix(to, dir+string(filepath.Separator)) {
				continue
			}
			if id := rolloutID(to); id != "" {
				return id, to
			}
		}
	}
	return "", ""
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// only is the one conversation that began in this folder since the launch.
func (w *codexWatch) only() (session, path string, err error) {
	var found []string
	for _, f := range w.files() {
		if !slices.Contains(w.before, f) && rolloutID(f) != "" && w.here(f) {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 0:
		return "", "", errNoTranscript
	case len(found) > 1:
		return "", "", fault.New(fault.Failed, "%d conversations of Codex began in this folder during the session, so it cannot be told which is its own, and none was captured", len(found))
	case w.beside() > 0:
		return "", "", fault.New(fault.Failed, "another builder session was open beside this one, so it cannot be told whose conversation %s is, and it was not captured", rolloutID(found[0]))
	}
	return rolloutID(found[0]), found[0], nil
}

// here reports whether a transcript says that it began in this folder.
func (w *codexWatch) here(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	row, err := bufio.NewReader(io.LimitReader(f, 1<<20)).ReadBytes('\n')
	if err != nil {
		return false
	}
	var meta struct {
		Type    string `json:"type"`
		Payload struct {
			Cwd string `json:"cwd"`
		} `json:"payload"`
	}
	if json.Unmarshal(row, &meta) != nil || meta.Type != "session_meta" {
		return false
	}
	return same(meta.Payload.Cwd, w.cwd)
}

func same(a, b string) bool {
	x, xerr := filepath.EvalSymlinks(a)
	y, yerr := filepath.EvalSymlinks(b)
	return xerr == nil && yerr == nil && x == y
}
