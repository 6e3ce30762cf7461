package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// DiffOptions narrows a diff.
type DiffOptions struct {
	Paths        []string // files or directories; empty is all
	ContextLines int      // around each change; 0 is git's 3, negative is none
	MaxBytes     int      // of the text; 0 is 4 MiB
}

// FileStat counts what changed in one file. Path is raw: a surface has to quote
// it before it shows it.
type FileStat struct {
	Path    string `json:"path"`
	From    string `json:"from,omitempty"` // the old path of a rename
	Added   int    `json:"added"`
	Deleted int    `json:"deleted"`
	Binary  bool   `json:"binary,omitempty"`
}

// DiffResult is a diff as a reviewer reads it.
type DiffResult struct {
	Base      string     `json:"base"` // the merge base
	Text      string     `json:"text"`
	Files     []FileStat `json:"files"` // always complete
	Truncated bool       `json:"truncated,omitempty"`
}

const maxDiff = 4 << 20

// Diff shows what tip changed since it left base: committed work only (UW-001).
// No driver, filter or pager of any configuration runs.
func (r *Repo) Diff(ctx context.Context, base, tip string, o DiffOptions) (d DiffResult, err error) {
	for _, p := range o.Paths {
		if p != "." && !safePath(strings.TrimSuffix(p, "/")) {
			return DiffResult{}, fault.New(fault.Invalid, "%q is not a path in the repository", p)
		}
	}
	if d.Base, err = r.MergeBase(ctx, base, tip); err != nil {
		return DiffResult{}, fmt.Errorf("diff %s: %w", short(tip), err)
	}
	if d.Base == "" {
		return DiffResult{}, fault.New(fault.Conflict, "%s and %s share no history", short(base), short(tip))
	}
	limit := o.MaxBytes
	if limit <= 0 {
		limit = maxDiff
	}
	context := 3
	if o.ContextLines != 0 {
		context = max(o.ContextLines, 0)
	}
	tail := append([]string{d.Base, tip, "--"}, o.Paths...)
	args := func(form ...string) []string {
		return append(append([]string{"diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"}, form...), tail...)
	}
	err = r.with(r.scratch(), func(p *private) error {
		out, err := p.run(ctx, nil, args("--numstat", "-z")...)
		if err != nil {
			return err
		}
		if d.Files, err = parseNumstat(out); err != nil {
			return err
		}
		d.Text, d.Truncated, err = p.head(ctx, limit, args("-p", "--full-index", "-U"+strconv.Itoa(context))...)
		return err
	})
	if err != nil {
		return DiffResult{}, fmt.Errorf("diff %s: %w", short(tip), err)
	}
	return d, nil
}

// head returns at most limit bytes of output, cut at a line.
func (p *private) head(ctx context.Context, limit int, args ...string) (string, bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &firstBytes{limit: limit, full: cancel}
	err := p.r.git.stream(ctx, p.invocation(nil, args), w)
	if w.over {
		text := w.b.String()
		return text[:strings.LastIndexByte(text, '\n')+1], true, nil
	}
	return w.b.String(), false, err
}

type firstBytes struct {
	limit int
	full  func()
	b     bytes.Buffer
	over  bool
}

func (w *firstBytes) Write(p []byte) (int, error) {
	if room := w.limit - w.b.Len(); len(p) > room {
		w.b.Write(p[:room])
		w.over = true
		w.full()
		return room, errors.New("enough")
	}
	return w.b.Write(p)
}

// parseNumstat reads "added TAB deleted TAB path", or an empty path followed by
// the old and the new one.
func parseNumstat(out []byte) ([]FileStat, error) {
	recs := splitZ(out)
	var all []FileStat
	for i := 0; i < len(recs); i++ {
		f := strings.SplitN(recs[i], "\t", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("read numstat %q", recs[i])
		}
		s := FileStat{Path: f[2], Binary: f[0] == "-"}
		if !s.Binary {
			var e1, e2 error
			s.Added, e1 = strconv.Atoi(f[0])
			s.Deleted, e2 = strconv.Atoi(f[1])
			if err := errors.Join(e1, e2); err != nil {
				return nil, fmt.Errorf("read numstat: %w", err)
			}
		}
		if s.Path == "" {
			if i+2 >= len(recs) {
				return nil, fmt.Errorf("read numstat: a rename is cut off")
			}
			s.From, s.Path = recs[i+1], recs[i+2]
			i += 2
		}
		all = append(all, s)
	}
	return all, nil
}

// LogLine is one commit of a history. Its texts are raw.
type LogLine struct {
	SHA     string    `json:"sha"`
	Author  string    `json:"author"`
	When    time.Time `json:"when"`
	Subject string    `json:"subject"`
	Merge   bool      // it has more than one parent
}

// LogOneline lists the commits tip has that base has not, newest first, at most
// limit; 0 is 200.
func (r *Repo) LogOneline(ctx context.Context, base, tip string, limit int) ([]LogLine, error) {
	if err := shas(base, tip); err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = 200
	}
	out, err := r.ref(ctx, "log", "-z", "--no-show-signature", "--no-color", "-n", strconv.Itoa(limit),
		"--format=%H%x01%an%x01%ct%x01%p%x01%s", base+".."+tip, "--")
	if err != nil {
		return nil, fmt.Errorf("list commits: %w", err)
	}
	var all []LogLine
	for _, rec := range splitZ(out) {
		f := strings.SplitN(rec, "\x01", 5)
		if len(f) != 5 {
			return nil, fmt.Errorf("list commits: read %q", rec)
		}
		sec, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("list commits: %w", err)
		}
		all = append(all, LogLine{SHA: f[0], Author: f[1], When: time.Unix(sec, 0).UTC(), Subject: f[4], Merge: strings.Contains(f[3], " ")})
	}
	return all, nil
}

// Subjects lists the subject lines of the commits tip has that base has not, oldest
// first, merges left out: those of the newest 60.
func (r *Repo) Subjects(ctx context.Context, base, tip string) ([]string, error) {
	lines, err := r.LogOneline(ctx, base, tip, 60)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range slices.Backward(lines) {
		if !l.Merge {
			out = append(out, l.Subject)
		}
	}
	return out, nil
}
