package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// opencodeWatch finds the conversation of one launch of OpenCode and writes it out.
// OpenCode keeps all of them in a database, whose layout is its own affair, so it
// is asked for them. It draws their ids itself: the session's is the only one that
// began in this folder since the launch (BL-012).
type opencodeWatch struct {
	ask    func(args ...string) (string, error)
	db     string
	cwd    string
	began  time.Time
	beside func() int
	to     string // the file it is written out to, one message a line

	looked string // the state of the database when it was asked last
	found  string
	failed error
	have   []byte // what was written out
	anew   int    // how often it was written out anew: it is in the first line, which tells transcripts apart
}

func (e *Env) opencodeWatch(ctx context.Context, s *builderSession) *opencodeWatch {
	data := e.Getenv("XDG_DATA_HOME")
	if data == "" {
		data = filepath.Join(e.Getenv("HOME"), ".local", "share")
	}
	return &opencodeWatch{
		ask: func(args ...string) (string, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), opencodeMost)
			defer cancel()
			return e.Output(ctx, e.Dir, append([]string{s.argv[0]}, args...)...)
		},
		db: filepath.Join(data, "opencode", "opencode.db"), cwd: e.Dir, began: e.Now(), beside: e.besides(s),
		to: filepath.Join(filepath.Dir(s.file), "transcript.jsonl"),
	}
}

// opencodeMost bounds a question to OpenCode.
const opencodeMost = 2 * time.Minute

// find asks anew only when the database has changed.
func (w *opencodeWatch) find(string, bool) (session, path string, err error) {
	now := stateOf(w.db) + stateOf(w.db+"-wal")
	if now == "" {
		return "", "", errNoTranscript
	}
	if now != w.looked {
		if w.failed = w.look(); w.failed == nil {
			w.looked = now
		}
	}
	return w.found, w.to, w.failed
}

// stateOf changes with a file; "" is one that is not there.
func stateOf(path string) string {
	fi, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %d;", fi.Size(), fi.ModTime().UnixNano())
}

func (w *opencodeWatch) look() error {
	session, err := w.only()
	if err != nil {
		return err
	}
	out, err := w.ask("export", session)
	if err != nil {
		return fault.Wrap(fault.Failed, err, "OpenCode did not export the conversation %s, so it was not captured: %v", session, err)
	}
	b, err := rendered([]byte(out), w.anew)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(b, w.have) { // something that was written out has changed
		w.anew++
		if b, err = rendered([]byte(out), w.anew); err != nil {
			return err
		}
	}
	if err := config.WritePrivate(w.to, b); err != nil {
		return err
	}
	w.found, w.have = session, b
	return nil
}

// only is the one conversation that began in this folder since the launch.
func (w *opencodeWatch) only() (string, error) {
	out, err := w.ask("session", "list", "--format", "json")
	if err != nil {
		return "", fault.Wrap(fault.Failed, err, "OpenCode did not list its conversations, so none was captured: %v", err)
	}
	var all []struct {
		ID        string `json:"id"`
		Created   int64  `json:"created"` // milliseconds since 1970
		Directory string `json:"directory"`
	}
	if out != "" && json.Unmarshal([]byte(out), &all) != nil {
		return "", fault.New(fault.Failed, "OpenCode listed its conversations in a way that lazy does not read, so none was captured")
	}
	var own []string
	for _, s := range all {
		if s.ID != "" && s.Created >= w.began.UnixMilli() && same(s.Directory, w.cwd) {
			own = append(own, s.ID)
		}
	}
	switch {
	case len(own) == 0:
		return "", errNoTranscript
	case len(own) > 1:
		return "", fault.New(fault.Failed, "%d conversations of OpenCode began in this folder during the session, so it cannot be told which is its own, and capturing ended", len(own))
	case w.beside() > 0:
		return "", fault.New(fault.Failed, "another builder session was open beside this one, so it cannot be told whose conversation %s is, and it was not captured", line(own[0]))
	}
	return own[0], nil
}

// rendered writes an exported conversation as lines. A message that is still being
// written, and what comes after it, is for the next time.
func rendered(export []byte, anew int) ([]byte, error) {
	var in struct {
		Info struct {
			ID        string `json:"id"`
			Directory string `json:"directory"`
		} `json:"info"`
		Messages []struct {
			Info struct {
				ID   string `json:"id"`
				Role string `json:"role"`
				Time struct {
					Created   int64 `json:"created"`
					Completed int64 `json:"completed"`
				} `json:"time"`
				Error json.RawMessage `json:"error"`
			} `json:"info"`
			Parts json.RawMessage `json:"parts"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(export, &in); err != nil || in.Info.ID == "" {
		return nil, fault.New(fault.Failed, "OpenCode exported the conversation in a way that lazy does not read, so it was not captured")
	}
	var b bytes.Buffer
	rows := json.NewEncoder(&b)
	row := func(v any) error { return rows.Encode(v) }
	if err := row(map[string]any{"type": "session_meta", "id": in.Info.ID, "directory": in.Info.Directory, "anew": anew}); err != nil {
		return nil, fmt.Errorf("write transcript: %w", err)
	}
	for _, m := range in.Messages {
		if m.Info.Role == "assistant" && m.Info.Time.Completed == 0 && len(m.Info.Error) == 0 {
			break
		}
		if len(m.Parts) == 0 {
			m.Parts = json.RawMessage("[]")
		}
		err := row(map[string]any{
			"type": m.Info.Role, "id": m.Info.ID, "time": m.Info.Time.Created, "message": map[string]any{"role": m.Info.Role, "content": m.Parts},
		})
		if err != nil {
			return nil, fmt.Errorf("write transcript: %w", err)
		}
	}
	return b.Bytes(), nil
}
