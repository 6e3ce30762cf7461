package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// launched is the answer of the verbs that start an agent's turn.
type launched struct {
	TaskID string      `json:"task_id"`
	Code   string      `json:"code"`
	Status task.Status `json:"status"`
	TurnID string      `json:"turn_id"`
}

func (e *Env) startCommand() *cobra.Command {
	var agent, model, effort string
	past := false
	c := &cobra.Command{
		Use:   "start TASK",
		Short: "Start a task: launch its agent in a sealed worktree",
		Args:  exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			for _, name := range creationFlags() {
				if c.Flags().Changed(name) {
					return refusal.Of(refusal.CreationOnStart, "--"+name)
				}
			}
			in := args{"task_id": words[0]}.with("agent", agent).with("model", model).with("effort", effort).with(pastPause, past)
			out, err := e.narrated(c.Context(), "Start "+line(words[0]), "start", words[0], in)
			if err != nil {
				return err
			}
			return e.isRunning(out, words[0])
		},
	}
	c.Flags().StringVar(&agent, "agent", "", "agent to run it; the task's by default")
	c.Flags().StringVar(&model, "model", "", "model for the agent")
	c.Flags().StringVar(&effort, "effort", "", "effort for the agent")
	passFlag(c, &past)
	for _, name := range creationFlags() {
		c.Flags().String(name, "", "belongs to create")
		_ = c.Flags().MarkHidden(name)
	}
	e.jsonFlag(c)
	return c
}

const pastPause = "past_usage_pause"

// passFlag gives a verb that launches an agent its way past the usage pause.
func passFlag(c *cobra.Command, past *bool) {
	c.Flags().BoolVar(past, "past-usage-pause", false, "start it although its credential is near paid overage")
}

// creationFlags belong to create. start knows them only to say so (HA-002).
func creationFlags() []string { return []string{"goal", "prompt", "code", "type", "parent"} }

// isRunning tells a person that the agent runs and how to go on.
func (e *Env) isRunning(raw json.RawMessage, word string) error {
	return show(e, raw, func(out launched) error {
		name := out.Code
		if name == "" {
			name = word
		}
		return e.printf("The agent of %s is running. Wait for it with: lazy wait %s\n", line(name), line(name))
	})
}

func (e *Env) unblockCommand() *cobra.Command {
	message, past := "", false
	c := &cobra.Command{
		Use:   "unblock TASK",
		Short: "Answer a task that waits for you, and let its agent go on",
		Long: "unblock records your feedback, delivers it with every queued comment, and launches the agent. Feedback\n" +
			"comes from --message, standard input or your editor. To go on without any: lazy resume.",
		Args: exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if c.Flags().Changed("approve-file") {
				return refusal.Of(refusal.RetiredParameter, "--approve-file")
			}
			given := c.Flags().Changed("message")
			feedback, err := e.words(c.Context(), "feedback", message, given, "The agent of "+words[0]+" goes on with it.")
			if err != nil {
				return err
			}
			if blank(feedback) {
				return refusal.Of(refusal.FeedbackRequired)
			}
			in := args{"task_id": words[0], "feedback": feedback}.with(pastPause, past)
			out, err := e.narrated(c.Context(), "Unblock "+line(words[0]), "unblock", words[0], in)
			if err != nil {
				return err
			}
			return e.isRunning(out, words[0])
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "the feedback; - reads standard input")
	passFlag(c, &past)
	c.Flags().StringSlice("approve-file", nil, "belongs to accept")
	_ = c.Flags().MarkHidden("approve-file")
	e.jsonFlag(c)
	return c
}

func (e *Env) resumeCommand() *cobra.Command {
	past := false
	c := &cobra.Command{
		Use:   "resume TASK",
		Short: "Let a task's agent go on without feedback",
		Long:  "resume continues an interrupted or waiting task as it is, and resets its crash counter.",
		Args:  exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			out, err := e.narrated(c.Context(), "Resume "+line(words[0]), "resume", words[0], args{"task_id": words[0]}.with(pastPause, past))
			if err != nil {
				return err
			}
			return e.isRunning(out, words[0])
		},
	}
	passFlag(c, &past)
	e.jsonFlag(c)
	return c
}

func (e *Env) stopCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "stop TASK",
		Short: "End a task's running turn",
		Long: "stop ends the turn that runs. A work turn leaves the task interrupted until resume or unblock; nothing\n" +
			"resumes it on its own.",
		Args: exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			raw, err := e.call(c.Context(), "stopTask", args{"task_id": words[0]})
			if err != nil {
				return err
			}
			return show(e, raw, func(out launched) error {
				name := out.Code
				if name == "" {
					name = words[0]
				}
				if out.Status == task.Working {
					return e.printf("%s is being stopped. Wait for it with: lazy wait %s\n", line(name), line(name))
				}
				return e.printf("%s is %s.\n", line(name), out.Status.Words())
			})
		},
	}
	e.jsonFlag(c)
	return c
}

func (e *Env) syncCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sync TASK",
		Short: "Bring a resting task's branch up to date",
		Long: "sync merges into the task's branch what the same branch has on origin, if there is one, then what is new on\n" +
			"the branch it merges into; a conflict goes to the task's agent. Nothing is pushed or written to the other\n" +
			"branches, and the task's status stays what it was.",
		Args: exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			out, err := e.narrated(c.Context(), "Sync "+line(words[0]), "sync", words[0], args{"task_id": words[0]})
			if err != nil {
				return err
			}
			return show(e, out, func(out synced) error {
				what := "was already up to date"
				if out.Merged != "" {
					what = "has what is new: " + line(out.Merged)
				}
				return e.printf("%s %s. It is %s.\n", line(out.Code), what, out.Status.Words())
			})
		},
	}
	e.jsonFlag(c)
	return c
}

// synced is the answer of a sync; Merged is empty when there was nothing to do.
type synced struct {
	Code   string      `json:"code"`
	Status task.Status `json:"status"`
	Merged string      `json:"merged"`
}

func (e *Env) askCommand() *cobra.Command {
	message, past := "", false
	c := &cobra.Command{
		Use:   "ask TASK",
		Short: "Ask a task's agent a question; nothing is changed",
		Long: "ask lets the agent of a resting task answer one question, read-only, and prints the answer. The question\n" +
			"comes from --message, standard input or your editor. The task's status stays what it was.",
		Args: exactly("the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			question, err := e.words(c.Context(), "question", message, c.Flags().Changed("message"), "The agent of "+words[0]+" answers it.")
			if err != nil {
				return err
			}
			if err := required("question", question, "--message"); err != nil {
				return err
			}
			cl, err := e.client(c.Context())
			if err != nil {
				return err
			}
			w := e.Err
			if e.json {
				w = io.Discard // the answer alone (HA-015)
			}
			out, err := e.carry(c.Context(), cl, e.narrateOn(w, "Ask "+line(words[0])), "ask", words[0], args{"task_id": words[0], "question": question}.with(pastPause, past))
			if err != nil {
				return err
			}
			return show(e, out, func(out struct {
				Answer string `json:"answer"`
			},
			) error {
				return e.printf("%s\n", strings.TrimRight(clean(out.Answer), "\n"))
			})
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "the question; - reads standard input")
	passFlag(c, &past)
	e.jsonFlag(c)
	return c
}

// record reads what a decision is about before anybody is asked for it.
func (e *Env) record(ctx context.Context, c Client, word string, sections ...string) (shown, error) {
	var s shown
	err := c.Call(ctx, "showTask", args{"task_id": word, "sections": sections}, &s)
	return s, err
}
