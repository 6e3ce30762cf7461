package op

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// CommentIn is the input of addComment.
type CommentIn struct {
	TaskID  string `json:"task_id" jsonschema:"the task (id, short id or code)"`
	Message string `json:"message" jsonschema:"the instruction, in full"`
}

// EditCommentIn is the input of editComment.
type EditCommentIn struct {
	TaskID    string `json:"task_id" jsonschema:"the task (id, short id or code)"`
	CommentID string `json:"comment_id" jsonschema:"id of the comment inside the task, for example c3"`
	Message   string `json:"message" jsonschema:"the text that replaces it"`
}

// JournalIn is the input of addJournal.
type JournalIn struct {
	Content string `json:"content" jsonschema:"the note, in full"`
	TaskID  string `json:"task_id,omitempty" jsonschema:"the task to write on (id, short id or code); a task agent may leave it out to write on its own"`
}

// TagIn is the input of tagTask and untagTask.
type TagIn struct {
	Task string   `json:"task_id" jsonschema:"the task (id, short id or code)"`
	Tags []string `json:"tags" jsonschema:"labels"`
}

// Tagged answers tagTask and untagTask.
type Tagged = app.Tagged

// noteOps are the two kinds of notes on a task: comments instruct and are
// delivered, the journal informs and is looked up; and its labels.
func noteOps() []Op {
	label := app.Rule{Agent: app.Child, Self: string(refusal.AnnotateSelfTag), Else: string(refusal.AnnotateChildrenOnly)}
	return []Op{
		Define(Op{
			Name: "tagTask", Tool: "lazy_tag", People: people(), Builder: true, Agent: true, Rule: label,
			Doc:     "Add labels to a task, whatever its status. They change nothing about its work; lists find it by them.",
			Refuses: []refusal.Code{refusal.AnnotateSelfTag, refusal.AnnotateChildrenOnly},
		}, func(ctx context.Context, a *app.App, c app.Call, in TagIn) (Tagged, error) {
			return a.Tag(ctx, c, in.Task, in.Tags)
		}, items("tags", 1, app.TagsMost), within("tags", labels)),
		Define(Op{
			Name: "untagTask", Tool: "lazy_untag", People: people(), Builder: true, Agent: true, Rule: label,
			Doc:     "Remove labels from a task. A label that it does not have is passed over.",
			Refuses: []refusal.Code{refusal.AnnotateSelfTag, refusal.AnnotateChildrenOnly},
		}, func(ctx context.Context, a *app.App, c app.Call, in TagIn) (Tagged, error) {
			return a.Untag(ctx, c, in.Task, in.Tags)
		}, items("tags", 1, app.TagsMost), within("tags", labels)),
		Define(Op{
			Name: "addComment", Tool: "lazy_comment",
			Doc: "Instruct a task's agent: the text is delivered in full with its next work prompt. " +
				"It starts no turn itself, and stays queued until a turn that was shown it ends normally.",
			People: people(), Builder: true, Agent: true,
			Rule: app.Rule{
				Agent: app.Child, Self: string(refusal.AnnotateSelfComment), Else: string(refusal.AnnotateChildrenOnly),
			},
			Refuses: []refusal.Code{refusal.AnnotateSelfComment, refusal.AnnotateChildrenOnly, refusal.StatusNotAllowed},
		}, func(ctx context.Context, a *app.App, c app.Call, in CommentIn) (app.Commented, error) {
			return a.AddComment(ctx, c, in.TaskID, in.Message)
		}, lengths(1, 0, "message")),
		Define(Op{
			Name: "editComment",
			Doc: "Rewrite a comment of your own as long as no prompt has carried it. " +
				"Once the agent was shown it the text stays; post another comment then.",
			People:  people(),
			Refuses: []refusal.Code{refusal.CommentDelivered, refusal.CommentNotAuthor},
		}, func(ctx context.Context, a *app.App, c app.Call, in EditCommentIn) (app.Commented, error) {
			return a.EditComment(ctx, c, in.TaskID, in.CommentID, in.Message)
		}, lengths(1, 0, "message")),
		Define(Op{
			Name: "addJournal", Tool: "lazy_journal",
			Doc: "Leave a passive note on any task of the project. It informs and never instructs: " +
				"no prompt carries its text, nothing starts or reacts, and it is looked up with the task's record.",
			People: people(), Builder: true, Agent: true, Rule: app.Rule{Agent: app.Any},
		}, func(ctx context.Context, a *app.App, c app.Call, in JournalIn) (app.Journaled, error) {
			return a.AddJournal(ctx, c, in.TaskID, in.Content)
		}, lengths(1, 0, "content")),
	}
}

// labels bounds one tag.
func labels(s *jsonschema.Schema) {
	least, most := 1, 50
	s.MinLength, s.MaxLength = &least, &most
}
