package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

type shown = op.Shown

func blank(s string) bool { return text.Blank(s) }

// ending is one of the two verbs that end a task without merging it. They differ
// in what they say about the work, and in where they apply.
type ending struct {
	verb, past, doc string
	long            string
}

func (e *Env) rejectCommand() *cobra.Command {
	return e.endCommand(ending{
		verb: "reject", past: "rejected", doc: "Refuse a task's work and end the task",
		long: "reject ends a task whose work you do not want: its agent is stopped, its workspace and branch go.\n" +
			"A resting task with uncommitted or half-merged files is refused first; close saves those as a patch.",
	})
}

func (e *Env) closeCommand() *cobra.Command {
	return e.endCommand(ending{
		verb: "close", past: "closed", doc: "Cancel a task",
		long: "close ends a task you no longer need: its agent is stopped, its workspace and branch go, and files\n" +
			"it left uncommitted are kept as a patch.",
	})
}

func (e *Env) endCommand(v ending) *cobra.Command {
	reason, yes := "", false
	c := &cobra.Command{
		Use:   v.verb + " TASK",
		Short: v.doc,
		Long:  v.long + "\nThe reason comes from --reason, standard input or your editor.",
		Args:  exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			cl, err := e.client(c.Context())
			if err != nil {
				return err
			}
			s, err := e.record(c.Context(), cl, words[0], "summary")
			if err != nil {
				return err
			}
			if !yes && !e.TTY(e.In) {
				return e.confirm("lazy "+v.verb, "", false)
			}
			why, err := e.words(c.Context(), "reason", reason, c.Flags().Changed("reason"),
				fmt.Sprintf("Why %s is %s: %s", s.Code, v.past, s.Goal))
			if err != nil {
				return err
			}
			if err := required("reason", why, "--reason"); err != nil {
				return err
			}
			question := fmt.Sprintf("%s (%s, %s) “%s” ends without a merge, and its branch is deleted. %s it?",
				line(s.Code), s.Short, s.Status.Words(), line(s.Goal), title(v.verb))
			if err := e.confirm("lazy "+v.verb, question, yes); err != nil {
				return err
			}
			out, err := e.finish(c.Context(), cl, v, s, why)
			if err != nil {
				return err
			}
			return show(e, out, func(out ended) error {
				if out.Recovery != "" {
					if err := e.printf("Its uncommitted files are kept in %s\n", line(out.Recovery)); err != nil {
						return err
					}
				}
				return e.printf("%s is %s.\n", line(s.Code), out.Status.Words())
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; - reads standard input")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	e.jsonFlag(c)
	return c
}

// ended is the answer of a reject or a close.
type ended struct {
	Status   task.Status `json:"status"`
	Recovery string      `json:"recovery"`
}

// finish ends a task, narrated. An agent that works is stopped first: the answer
// then only says that this was asked for, and the end follows its turn's.
func (e *Env) finish(ctx context.Context, c Client, v ending, s shown, reason string) (json.RawMessage, error) {
	n := e.narrate(title(v.verb) + " " + line(s.Code))
	defer n.run()()
	names := []string{"stop agent", "record reason", "close PR/MR", "end session", "tear down"}
	at := func(i int, state, note string) {
		n.phase(client.Phase{N: i + 1, Of: len(names), Name: names[i], State: state, Note: note, At: e.Now()})
	}
	out, err := raw(ctx, c, v.verb+"Task", args{"task_id": string(s.TaskID), "reason": reason}, client.WithBeat(n.beat))
	if err != nil {
		n.end(true)
		return nil, err
	}
	var now ended
	if err := decode(out, &now); err != nil {
		return nil, err
	}
	for i := range names {
		at(i, "planned", "")
	}
	if now.Status == task.Working {
		at(0, "started", "")
		if now.Status, err = e.untilOver(ctx, c, s, n); err != nil {
			n.end(ctx.Err() == nil)
			if ctx.Err() != nil {
				return nil, &waitError{words: []string{s.Code}, why: "its agent is being stopped, and it ends after that"}
			}
			return nil, err
		}
		at(0, "done", "")
		if out, err = withStatus(out, now.Status); err != nil {
			return nil, err
		}
	} else {
		at(0, "skipped", "no agent is running")
	}
	at(1, "started", "")
	at(1, "done", "")
	at(2, "skipped", "no forge is connected")
	at(3, "started", "")
	at(3, "done", "")
	at(4, "started", "")
	at(4, "done", "handed to the control plane, which retries until it is gone")
	n.end(false)
	return out, nil
}

// untilOver waits until the task has ended.
func (e *Env) untilOver(ctx context.Context, c Client, s shown, n *narrator) (task.Status, error) {
	for {
		var w op.Waited
		if err := c.Call(ctx, "waitTasks", args{"task_ids": []string{string(s.TaskID)}}, &w, client.WithBeat(n.beat)); err != nil {
			return "", err
		}
		for _, t := range w.Settled {
			if t.Status.Terminal() {
				return t.Status, nil
			}
		}
		if len(w.Settled) > 0 { // between the turn's end and the task's own
			pause := lookMost
			if err := sleep(ctx, &pause); err != nil {
				return "", err
			}
		}
	}
}

// withStatus is an answer brought up to date.
func withStatus(answer json.RawMessage, s task.Status) (json.RawMessage, error) {
	var m map[string]any
	if err := decode(answer, &m); err != nil {
		return nil, err
	}
	m["status"] = s
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("print the answer: %w", err)
	}
	return b, nil
}

func title(s string) string {
	if s == "" {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

func (e *Env) reopenCommand() *cobra.Command {
	reason, yes := "", false
	c := &cobra.Command{
		Use:   "reopen TASK",
		Short: "Return a finished task; a merged one needs a --reason",
		Args:  exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			cl, err := e.client(c.Context())
			if err != nil {
				return err
			}
			s, err := e.record(c.Context(), cl, words[0], "summary")
			if err != nil {
				return err
			}
			if reason == "-" {
				if reason, err = e.stdin("reason"); err != nil {
					return err
				}
			}
			if s.Status == task.Complete && blank(reason) {
				return fault.New(fault.Invalid, "%s was merged, so reopening it needs a reason", s.Code).
					WithNext("Give it with --reason.")
			}
			question := fmt.Sprintf("%s (%s, %s) “%s” comes back. Reopen it?", line(s.Code), s.Short, s.Status.Words(), line(s.Goal))
			if err := e.confirm("lazy reopen", question, yes); err != nil {
				return err
			}
			out, err := raw(c.Context(), cl, "reopenTask", args{"task_id": string(s.TaskID)}.with("reason", reason))
			if err != nil {
				return err
			}
			return show(e, out, func(out launched) error {
				return e.printf("%s is %s.\n", line(s.Code), out.Status.Words())
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; - reads standard input")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	e.jsonFlag(c)
	return c
}

// accepted is the answer of an accept.
type accepted struct {
	Code     string      `json:"code"`
	Status   task.Status `json:"status"`
	Target   string      `json:"target"`
	Merge    string      `json:"merge_sha"`
	Reverted []string    `json:"reverted_files"`
}

func (e *Env) acceptCommand() *cobra.Command {
	var files []string
	reason, queued, yes := "", false, false
	c := &cobra.Command{
		Use:   "accept TASK",
		Short: "Merge a task's work into the branch it was cut from",
		Long: "accept checks that the work can be merged, merges it as one commit, and cleans up. Open blocking items\n" +
			"are asked for one by one. An accept that was interrupted goes on. A reason may be piped in.",
		Example: "  lazy accept login\n  echo \"Reviewed with Ada\" | lazy accept login --yes",
		Args:    exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			cl, err := e.client(c.Context())
			if err != nil {
				return err
			}
			s, err := e.record(c.Context(), cl, words[0], "summary", "protection", "raised")
			if err != nil {
				return err
			}
			in := args{"task_id": string(s.TaskID)}.with("approved_files", files).with("allow_queued_comments", queued)
			if !c.Flags().Changed("reason") || reason == "-" {
				if reason, err = e.stdin("reason"); err != nil {
					return err
				}
			}
			in.with("reason", reason)
			if s.Blocking > 0 && e.TTY(e.In) && e.TTY(e.Err) {
				decided, err := e.walk(s)
				if err != nil {
					return err
				}
				in["raised_resolutions"] = decided
			}
			question := fmt.Sprintf("%s (%s) “%s”, %s, is merged into %s. Accept it?",
				line(s.Code), s.Short, line(s.Goal), count(int(s.Commits), "commit"), line(s.Target))
			if err := e.confirm("lazy accept", question, yes); err != nil {
				return err
			}
			out, err := e.narratedBy(c.Context(), cl, "Accept "+line(s.Code), "accept", s.Code, in)
			if err != nil {
				return err
			}
			return e.printAccepted(out, s)
		},
	}
	c.Flags().StringSliceVar(&files, "approve-file", nil, "protected file to let through; may be repeated")
	c.Flags().BoolVar(&queued, "allow-queued-comments", false, "merge although comments have not reached the agent")
	c.Flags().StringVar(&reason, "reason", "", "kept with the merge; - reads standard input")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask; items, protected files and gates are decided all the same")
	e.jsonFlag(c)
	return c
}

func (e *Env) printAccepted(raw json.RawMessage, s shown) error {
	return show(e, raw, func(out accepted) error {
		if out.Merge == "" {
			return e.printf("%s is %s.\n", line(s.Code), out.Status.Words())
		}
		if out.Target == "" {
			out.Target = s.Target
		}
		for _, f := range out.Reverted {
			if err := e.printf("The agent itself reverted %s, a protected file.\n", line(f)); err != nil {
				return err
			}
		}
		return e.printf("Merged %s as %s into %s.\n", line(s.Code), short(line(out.Merge)), line(out.Target))
	})
}

// walk asks for a decision on each open blocking item, all or nothing. --yes
// does not skip it (RI-008).
func (e *Env) walk(s shown) ([]args, error) {
	var open []op.RaisedShown
	if s.Raised != nil {
		for _, it := range s.Raised.Items {
			if it.Blocking && it.State == "open" {
				open = append(open, it)
			}
		}
	}
	var out []args
	for i, it := range open {
		fmt.Fprintf(e.Err, "\nItem %d of %d: %s\n%s", i+1, len(open), raisedLine(it), indent(clean(it.Body), "  "))
		in, err := e.decide(it)
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

func (e *Env) decide(it op.RaisedShown) (args, error) {
	in := args{"raised_id": it.RaisedID}
	for {
		answer, err := e.ask("  [a]nswer, make it a [s]ubtask or a [p]eer, [d]ismiss, or [q]uit: ")
		if err != nil {
			return nil, err
		}
		switch answer {
		case "a", "answer":
			words, err := e.ask("  Answer: ")
			if err != nil {
				return nil, err
			}
			if blank(words) {
				continue
			}
			return with(in, "respond").with("response", words), nil
		case "s", "subtask":
			return with(in, "promote_subtask"), nil
		case "p", "peer":
			return with(in, "promote_peer"), nil
		case "d", "dismiss":
			return with(in, "dismiss"), nil
		case "q", "quit":
			return nil, errDeclined
		}
	}
}

func with(in args, action string) args {
	in["action"] = action
	return in
}
