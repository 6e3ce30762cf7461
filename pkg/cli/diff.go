package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
)

func (e *Env) diffCommand() *cobra.Command {
	path, stat, offset := "", false, 0
	c := &cobra.Command{
		Use:   "diff TASK",
		Short: "Show a task's change: what its commits do to the branch it was cut from",
		Args:  exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if offset < 0 {
				return usage(c, "--offset expects 0 or more, got %d", offset)
			}
			in := args{"task_id": words[0]}.with("path", path).with("offset", offset)
			cl, err := e.client(c.Context())
			if err != nil {
				return err
			}
			for first := true; ; first = false {
				page, err := raw(c.Context(), cl, "diffTask", in)
				if err != nil {
					return err
				}
				if e.json {
					return e.printJSON(page) // one page: the operation's own answer
				}
				var out op.DiffShown
				if err := decode(page, &out); err != nil {
					return err
				}
				if first {
					if err := e.printStat(out); err != nil || stat {
						return err
					}
				}
				if err := e.printf("%s", e.paintDiff(clean(out.Diff))); err != nil {
					return err
				}
				if !out.Truncated || out.Next <= offset {
					return nil
				}
				offset = out.Next
				in["offset"] = offset
			}
		},
	}
	c.Flags().StringVar(&path, "path", "", "only this file or directory")
	c.Flags().BoolVar(&stat, "stat", false, "only the files and their line counts")
	c.Flags().IntVar(&offset, "offset", 0, "go on from this offset of an earlier answer")
	e.jsonFlag(c)
	return c
}

func (e *Env) printStat(out op.DiffShown) error {
	if len(out.Files) == 0 {
		return e.printf("%s has changed nothing yet.\n", line(out.Code))
	}
	widest, added, deleted := 0, 0, 0
	for _, f := range out.Files {
		widest = max(widest, columns(line(f.Path)))
		added += f.Added
		deleted += f.Deleted
	}
	var b strings.Builder
	for _, f := range out.Files {
		p := line(f.Path)
		b.WriteString("  " + p + strings.Repeat(" ", widest-columns(p)))
		if f.Binary {
			b.WriteString("  binary\n")
			continue
		}
		fmt.Fprintf(&b, "  +%d -%d\n", f.Added, f.Deleted)
	}
	fmt.Fprintf(&b, "%s, +%d -%d, from %s to %s\n\n", count(len(out.Files), "file"), added, deleted, short(out.Base), short(out.Tip))
	return e.printf("%s", b.String())
}

// paintDiff colours the lines of a diff on a terminal.
func (e *Env) paintDiff(s string) string {
	if !e.TTY(e.Out) {
		return s
	}
	var b strings.Builder
	for l := range strings.Lines(s) {
		body := strings.TrimSuffix(l, "\n")
		code := ""
		switch {
		case strings.HasPrefix(body, "diff "), strings.HasPrefix(body, "+++"), strings.HasPrefix(body, "---"):
			code = bold
		case strings.HasPrefix(body, "+"):
			code = "32"
		case strings.HasPrefix(body, "-"):
			code = "31"
		case strings.HasPrefix(body, "@@"):
			code = "36"
		}
		b.WriteString(e.styledIf(code, body))
		b.WriteString(l[len(body):])
	}
	return b.String()
}
