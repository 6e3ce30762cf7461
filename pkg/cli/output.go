package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/text"
)

// clean makes text that others wrote safe for a terminal. What is stored is
// escaped already; a reader does not rely on it. Characters that reorder what
// is displayed are made visible, since a goal or a diff could lie with them.
func clean(s string) string {
	s = strings.ReplaceAll(text.Field(s), "\r", "")
	if !strings.ContainsFunc(s, reorders) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if reorders(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func reorders(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}

// line is clean text on one line.
func line(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// jsonFlag gives a command its --json.
func (e *Env) jsonFlag(c *cobra.Command) {
	c.Flags().BoolVar(&e.json, "json", false, "print the operation's answer as one JSON document")
}

// printJSON prints an operation's answer as it came, indented.
func (e *Env) printJSON(raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	b.WriteByte('\n')
	_, err := e.Out.Write(b.Bytes())
	return err
}

// show decodes an answer for write, or prints it whole under --json.
func show[T any](e *Env, raw json.RawMessage, write func(T) error) error {
	if e.json {
		return e.printJSON(raw)
	}
	var v T
	if err := decode(raw, &v); err != nil {
		return err
	}
	return write(v)
}

// printf writes to stdout.
func (e *Env) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(e.Out, format, args...)
	return err
}

// note writes a remark about the work to stderr.
func (e *Env) note(format string, args ...any) {
	fmt.Fprintf(e.Err, "lazy: "+format+"\n", args...)
}

// styled wraps s in a terminal style where w is a terminal that wants it.
func (e *Env) styled(w io.Writer, code, s string) string {
	if !e.TTY(w) || e.Getenv("NO_COLOR") != "" || e.Getenv("TERM") == "dumb" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Styles of the few things that are worth a colour.
const (
	bold = "1"
	dim  = "2"
)

// table lays rows out in columns. The last column is cut to the terminal's width;
// when piped nothing is cut.
func (e *Env) table(head []string, rows [][]string) string {
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = columns(h)
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = line(cell)
			if row[i] == "" {
				row[i] = "-"
			}
			widths[i] = max(widths[i], columns(row[i]))
		}
	}
	most := 0
	if e.TTY(e.Out) {
		most = e.Width()
	}
	var b strings.Builder
	write := func(row []string, code string) {
		used := 0
		for i, cell := range row {
			if i == len(row)-1 {
				if most > 0 {
					cell = cutTo(cell, max(most-used, 10))
				}
				b.WriteString(e.styledIf(code, cell))
				break
			}
			pad := widths[i] - columns(cell) + 2
			b.WriteString(e.styledIf(code, cell))
			b.WriteString(strings.Repeat(" ", pad))
			used += widths[i] + 2
		}
		b.WriteByte('\n')
	}
	write(head, bold)
	for _, row := range rows {
		write(row, "")
	}
	return b.String()
}

func (e *Env) styledIf(code, s string) string {
	if code == "" {
		return s
	}
	return e.styled(e.Out, code, s)
}

// columns is how many terminal columns s takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// cutTo shortens s to n columns, with a mark that it did.
func cutTo(s string, n int) string {
	if columns(s) <= n {
		return s
	}
	var b strings.Builder
	used := 0
	for _, r := range s {
		if used+runeColumns(r) > n-1 {
			break
		}
		used += runeColumns(r)
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// span prints a duration the way people say it: 340ms, 12s, 2m10s, 3h05m.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0ms"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		if d < 10*time.Second && d%time.Second >= 100*time.Millisecond {
			return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
		}
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// clock prints a time to come.
func (e *Env) clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// ago prints a time as a distance from now.
func (e *Env) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := e.Now().Sub(t)
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours())/24)
}

// indent puts every line of a text under a heading.
func indent(s, by string) string {
	s = strings.TrimRight(s, "\n")
	return by + strings.ReplaceAll(s, "\n", "\n"+by) + "\n"
}

// short is a commit as people read it.
func short(sha string) string {
	if len(sha) > 8 {
		return sha[:8]
	}
	return sha
}

func decode(raw json.RawMessage, to any) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("understand the control plane's answer: %w", err)
	}
	return nil
}
