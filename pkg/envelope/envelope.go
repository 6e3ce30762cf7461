// Package envelope is what travels around an answer, on both ends of the wire:
// the heartbeat envelope of a framed reply (WF-01), the body of an error, the
// advice an audience can follow, and the state of an operation in flight. It
// knows lines and JSON, not HTTP.
package envelope

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// ContentType is the media type of a framed reply.
const ContentType = "application/x-ndjson"

// MaxLine is the longest line a reader accepts.
const MaxLine = 64 << 20

// ErrCut means that a framed reply ended before its final line: what was asked
// may have been done or not, so it is neither a success nor retried (RP-005).
var ErrCut = errors.New("envelope: the reply ended before its final line")

// ErrMalformed means that what arrived is not a framed reply.
var ErrMalformed = errors.New("envelope: not a framed reply")

// Reply is an answer with its true status.
type Reply struct {
	Status int
	Body   json.RawMessage
}

// Writer writes one framed reply. It belongs to one goroutine. Once the peer is
// gone it writes nothing more and says so in every answer; the work goes on.
type Writer struct {
	w     io.Writer
	flush func()
	err   error
	done  bool
}

// NewWriter returns a writer on w. flush, which may be nil, pushes what was
// written on its way.
func NewWriter(w io.Writer, flush func()) *Writer {
	if flush == nil {
		flush = func() {}
	}
	return &Writer{w: w, flush: flush}
}

// Open writes the first line. It comes before any work (RP-003).
func (e *Writer) Open() error { return e.line([]byte(`{"lazyEnvelope":1}`)) }

// Beat writes a heartbeat.
func (e *Writer) Beat() error {
	return e.line(fmt.Appendf(nil, `{"heartbeat":%d}`, names.Heartbeat.Milliseconds()))
}

// Close writes the final line, exactly once; a second call writes nothing.
func (e *Writer) Close(r Reply) error {
	if e.done {
		return e.err
	}
	body := r.Body
	if len(body) == 0 {
		body = json.RawMessage("null")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"status":%d,"body":`, r.Status)
	if err := json.Compact(&b, body); err != nil {
		return fmt.Errorf("envelope: encode the final line: %w", err)
	}
	b.WriteByte('}')
	err := e.line(b.Bytes())
	e.done = true
	return err
}

func (e *Writer) line(b []byte) error {
	if e.err != nil || e.done {
		return e.err
	}
	if _, err := e.w.Write(append(b, '\n')); err != nil {
		e.err = err
		return err
	}
	e.flush()
	return nil
}

// Read reads a framed reply to its final line and calls beat, which may be nil,
// for its first line and for each heartbeat. A stream that ends or breaks before
// the final line is ErrCut.
func Read(r io.Reader, beat func()) (Reply, error) {
	if beat == nil {
		beat = func() {}
	}
	br := bufio.NewReader(r)
	for n := 0; ; n++ {
		b, err := readLine(br)
		if err != nil {
			return Reply{}, err
		}
		var line struct {
			Envelope  *int            `json:"lazyEnvelope"`
			Heartbeat *int            `json:"heartbeat"`
			Status    *int            `json:"status"`
			Body      json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal(b, &line); err != nil {
			return Reply{}, fmt.Errorf("%w: line %d is not an object", ErrMalformed, n+1)
		}
		switch {
		case n == 0:
			if line.Envelope == nil || *line.Envelope != 1 {
				return Reply{}, fmt.Errorf("%w: the first line does not open it", ErrMalformed)
			}
			beat()
		case line.Status != nil:
			if *line.Status < 100 || *line.Status > 599 {
				return Reply{}, fmt.Errorf("%w: status %d", ErrMalformed, *line.Status)
			}
			if len(line.Body) == 0 {
				line.Body = json.RawMessage("null")
			}
			return Reply{Status: *line.Status, Body: line.Body}, nil
		case line.Heartbeat != nil:
			beat()
		}
	}
}

// readLine reads up to LF. A last line without one was cut: it may have lost
// more than that.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > MaxLine {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrMalformed, MaxLine)
		}
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, ErrCut
		default:
			return nil, fmt.Errorf("%w: %w", ErrCut, err)
		}
	}
}
