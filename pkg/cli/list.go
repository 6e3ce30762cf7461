package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// listing holds the flags of the three listings.
type listing struct {
	levels          int
	tree, flat, ids bool
	group           bool
	status          []string
	tag, cursor     string
	limit           int
}

func (l *listing) shape(c *cobra.Command) {
	c.Flags().IntVar(&l.levels, "levels", 0, "show this many levels of subtasks; all by default")
	c.Flags().BoolVar(&l.tree, "tree", false, "put subtasks under their parents (the default)")
	c.Flags().BoolVar(&l.flat, "flat", false, "show one flat list")
}

func (l *listing) check(c *cobra.Command) error {
	if l.tree && l.flat {
		return usage(c, "--tree and --flat exclude each other")
	}
	if c.Flags().Changed("levels") && l.levels < 1 {
		return usage(c, "--levels expects 1 or more, got %d", l.levels)
	}
	return nil
}

func (e *Env) listCommand() *cobra.Command {
	var l listing
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List tasks",
		Long:    "list shows the live tasks of the project. Finished ones are shown when --status asks for them.",
		Example: "  lazy list\n  lazy list --status complete --status abandoned",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := l.check(c); err != nil {
				return err
			}
			for _, s := range l.status {
				if _, ok := task.ParseStatus(s); !ok {
					return usage(c, "there is no status %q; there are: %s", s, joined(task.Statuses()))
				}
			}
			if l.limit < 0 {
				return usage(c, "--limit expects 1 or more, got %d", l.limit)
			}
			in := args{}.with("levels", l.levels).with("status", l.status).with("tag", l.tag).
				with("limit", l.limit).with("cursor", l.cursor)
			raw, err := e.call(c.Context(), "listTasks", in)
			if err != nil {
				return err
			}
			return e.showListing(l, raw, "No live tasks. `lazy create --goal \"…\"` makes one.")
		},
	}
	l.shape(c)
	c.Flags().BoolVar(&l.ids, "ids-only", false, "print full ids only, one a line")
	c.Flags().BoolVar(&l.group, "group", false, "group the tasks by status")
	c.Flags().StringSliceVar(&l.status, "status", nil, "only tasks of this status; may be repeated")
	c.Flags().StringVar(&l.tag, "tag", "", "only tasks with this tag")
	c.Flags().IntVar(&l.limit, "limit", 0, "at most this many tasks")
	c.Flags().StringVar(&l.cursor, "cursor", "", "go on after an earlier page")
	e.jsonFlag(c)
	return c
}

func (e *Env) activeCommand() *cobra.Command {
	return e.setCommand("active", "List tasks with a live worktree: working, interrupted, pairing, merging", "listActive", true,
		"No task is active.")
}

func (e *Env) blockedCommand() *cobra.Command {
	return e.setCommand("blocked", "List tasks that wait for you: blocked, conflict, submitted", "listBlocked", false,
		"No task waits for you.")
}

func (e *Env) setCommand(name, doc, command string, levels bool, none string) *cobra.Command {
	var l listing
	c := &cobra.Command{
		Use:   name,
		Short: doc,
		Args:  exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := l.check(c); err != nil {
				return err
			}
			in := args{}
			if levels {
				in.with("levels", l.levels)
			}
			raw, err := e.call(c.Context(), command, in)
			if err != nil {
				return err
			}
			return e.showListing(l, raw, none)
		},
	}
	l.shape(c)
	e.jsonFlag(c)
	return c
}

func (e *Env) showListing(l listing, raw json.RawMessage, none string) error {
	return show(e, raw, func(out op.Listing) error {
		if l.ids {
			for _, r := range out.Tasks {
				if err := e.printf("%s\n", line(string(r.TaskID))); err != nil {
					return err
				}
			}
			return nil
		}
		if len(out.Tasks) == 0 {
			if len(l.status) > 0 || l.tag != "" {
				none = "No task matches."
			}
			return e.printf("%s\n", none)
		}
		rows := out.Tasks
		depth := map[id.Task]int{}
		if !l.flat && !l.group {
			rows, depth = tree(rows)
		}
		if err := e.printf("%s", e.rowsText(l, rows, depth)); err != nil {
			return err
		}
		if out.AsOf != "" {
			e.note("finished tasks come from an index, as of %s", line(out.AsOf))
		}
		if out.Cursor != "" {
			e.note("there are more: `lazy list --cursor %s`", line(out.Cursor))
		}
		return nil
	})
}

func (e *Env) rowsText(l listing, rows []op.Row, depth map[id.Task]int) string {
	head := []string{"ID", "TASK", "STATUS", "AGENT", "GOAL"}
	cells := func(r op.Row) []string {
		name := strings.Repeat("· ", depth[r.TaskID]) + r.Code
		if r.Hidden > 0 {
			name += fmt.Sprintf(" (+%d hidden)", r.Hidden)
		}
		return []string{r.Short, name, statusCell(r), r.Agent, r.Goal}
	}
	if !l.group {
		var out [][]string
		for _, r := range rows {
			out = append(out, cells(r))
		}
		return e.table(head, out)
	}
	var parts []string
	for _, s := range task.Statuses() {
		var out [][]string
		for _, r := range rows {
			if r.Status == s {
				out = append(out, cells(r))
			}
		}
		if len(out) > 0 {
			parts = append(parts, fmt.Sprintf("%s (%d)\n", s.Words(), len(out))+e.table(head, out))
		}
	}
	return strings.Join(parts, "\n")
}

// statusCell is a task's status in the words people read, with what makes it
// need attention.
func statusCell(r op.Row) string {
	s := r.Text
	if s == "" {
		s = r.Status.Words()
	}
	if r.Retry != "" && !strings.Contains(s, r.Retry) {
		s += ", " + r.Retry
	}
	if r.Merge != "" {
		s += ", unresolved merge"
	}
	if r.Blocking > 0 {
		s += fmt.Sprintf(", %d to decide", r.Blocking)
	}
	if r.Host {
		s += ", NO SANDBOX"
	}
	return s
}

// tree puts every task under its parent, as far as the parent is shown.
func tree(rows []op.Row) ([]op.Row, map[id.Task]int) {
	below := map[id.Task][]op.Row{}
	shown := map[id.Task]bool{}
	for _, r := range rows {
		shown[r.TaskID] = true
	}
	for _, r := range rows {
		p := r.Parent
		if !shown[p] {
			p = ""
		}
		below[p] = append(below[p], r)
	}
	depth := map[id.Task]int{}
	out := make([]op.Row, 0, len(rows))
	var walk func(id.Task, int)
	walk = func(p id.Task, d int) {
		for _, r := range below[p] {
			if _, twice := depth[r.TaskID]; twice {
				continue
			}
			depth[r.TaskID] = d
			out = append(out, r)
			walk(r.TaskID, d+1)
		}
	}
	walk("", 0)
	for _, r := range rows { // whatever no root leads to
		if _, seen := depth[r.TaskID]; !seen {
			depth[r.TaskID] = 0
			out = append(out, r)
		}
	}
	return out, depth
}

func joined[T ~string](all []T) string {
	ss := make([]string, len(all))
	for i, s := range all {
		ss[i] = string(s)
	}
	return strings.Join(ss, ", ")
}
