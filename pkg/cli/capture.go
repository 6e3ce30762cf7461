package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// pieceMost is how much of a transcript one request carries; as base64 it stays
// below what a body may have.
const pieceMost = 2 << 20

// capture sends what a session's transcript has grown by. Nothing is printed
// while it runs, which would spoil the agent's screen (CV-007).
type capture struct {
	session string // "" until it is known
	agent   string
	find    func(session string, over bool) (found, path string, err error)
	call    func(ctx context.Context, method string, params, out any) error

	sent  int64
	head  [32]byte // digest of the first sent bytes, to notice a transcript that was written anew
	known int      // how many bytes head is of
	title string
	whys  []string
	over  bool // the agent has ended
}

// run captures every 30 s until ctx ends (CV-004).
func (c *capture) run(ctx context.Context) {
	tick := time.NewTicker(names.CapturePeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.once(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// once sends what is new and the stamp of what to resume. Its failures are kept
// for the end, each once.
func (c *capture) once(ctx context.Context) {
	err := c.call(ctx, "getStoragePath", struct{}{}, nil) // renews the session's mark (ID-012)
	if err == nil {
		err = c.grow(ctx)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errNoTranscript) {
		if why := fault.Of(err).Public; !slices.Contains(c.whys, why) {
			c.whys = append(c.whys, why)
		}
	}
}

// last captures what is left once the agent has ended.
func (c *capture) last(ctx context.Context) {
	c.over = true
	c.once(ctx)
}

func (c *capture) failures() []string { return c.whys }

// headMost is how much of a transcript's beginning tells it from another one.
const headMost = 4 << 10

func (c *capture) grow(ctx context.Context) error {
	session, path, err := c.find(c.session, c.over)
	if err != nil {
		return err
	}
	if session != c.session { // the person has begun another one in the same agent
		c.session, c.sent, c.known, c.title = session, 0, 0, ""
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open transcript: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read transcript: %w", err)
	}
	anew := c.sent > 0 && fi.Size() < c.sent
	if c.sent > 0 && !anew {
		head := make([]byte, c.known)
		if _, err := io.ReadFull(f, head); err != nil || sha256.Sum256(head) != c.head {
			anew = true
		}
	}
	from := c.sent
	if anew {
		from = 0
	}
	before := c.sent
	for {
		b := make([]byte, pieceMost)
		n, err := f.ReadAt(b, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read transcript: %w", err)
		}
		b = b[:n]
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 || n < pieceMost {
			b = b[:i+1] // a line that is still being written is for the next time
		}
		if len(b) == 0 {
			break
		}
		if from == 0 {
			head := b[:min(len(b), headMost)]
			c.head, c.known, c.title = sha256.Sum256(head), len(head), titleOf(b)
		}
		sum := sha256.Sum256(b)
		err = c.call(ctx, "saveConversation", map[string]any{
			"session_id": c.session, "agent": c.agent, "title": c.title, "offset": from, "replace": anew, "content": b, "sha256": hex.EncodeToString(sum[:]),
		}, nil)
		if size, ok := storedSize(err); ok && !anew && size > from {
			from = size // an earlier session sent this much already
			c.sent = size
			continue
		}
		if err != nil {
			return err
		}
		from += int64(len(b))
		c.sent, anew = from, false
	}
	if c.sent == before {
		return nil
	}
	return c.call(ctx, "saveBuilderResumeIntent", map[string]string{"session_id": c.session}, nil)
}

// storedSize is where the stored text ends, when a refusal says so.
func storedSize(err error) (int64, bool) {
	if err == nil {
		return 0, false
	}
	switch n := fault.Of(err).Details["size"].(type) {
	case float64:
		return int64(n), true
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	case int64:
		return n, true
	}
	return 0, false
}

// titleOf is what a person said first.
func titleOf(b []byte) string {
	for row := range bytes.Lines(b) {
		var e struct {
			Type    string `json:"type"`
			Message struct {
				Content json.RawMessage `json:"content"`
			} `json:"message"`
			Payload struct {
				Type    string `json:"type"`
				Message string `json:"message"`
			} `json:"payload"`
		}
		if json.Unmarshal(row, &e) != nil {
			continue
		}
		s := ""
		switch {
		case e.Type == "event_msg" && e.Payload.Type == "user_message": // Codex
			s = e.Payload.Message
		case e.Type != "user":
			continue
		}
		var parts []struct {
			Text string `json:"text"`
		}
		if s == "" && json.Unmarshal(e.Message.Content, &s) != nil && json.Unmarshal(e.Message.Content, &parts) == nil && len(parts) > 0 {
			s = parts[0].Text
		}
		if !text.Blank(s) {
			s, _ = text.Cut(text.Line(s), 100)
			return s
		}
	}
	return ""
}
