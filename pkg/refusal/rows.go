package refusal

import "github.com/lazyplane/lazyplane/pkg/fault"

// The codes.
const (
	Unauthenticated      Code = "unauthenticated"
	SessionEnded         Code = "session_ended"
	WrongSurface         Code = "wrong_surface"
	IdentityMismatch     Code = "identity_mismatch"
	BadSegment           Code = "bad_segment"
	ActorNamed           Code = "actor_named"
	OperatorNotAPerson   Code = "operator_not_a_person"
	ControlOnly          Code = "control_only"
	AdminOnly            Code = "admin_only"
	ViewingAs            Code = "viewing_as"
	LocalOnly            Code = "local_only"
	SingleOwner          Code = "single_owner"
	HumanOnly            Code = "human_only"
	TtyRequired          Code = "tty_required"
	InContainer          Code = "in_container"
	TestOverrideSet      Code = "test_override_set"
	NotYourSubtree       Code = "not_your_subtree"
	StartChildrenOnly    Code = "start_children_only"
	AnnotateChildrenOnly Code = "annotate_children_only"
	AnnotateSelfComment  Code = "annotate_self_comment"
	AnnotateSelfTag      Code = "annotate_self_tag"
	AcceptSelf           Code = "accept_self"
	AcceptChildrenOnly   Code = "accept_children_only"
	ParentNotSelf        Code = "parent_not_self"
	ParentLocked         Code = "parent_locked"
	TreeReshape          Code = "tree_reshape"
	BuilderOnly          Code = "builder_only"
	AgentOnly            Code = "agent_only"
	ReviewSettingsSelf   Code = "review_settings_self"
	SelfWait             Code = "self_wait"
	SelfTerminating      Code = "self_terminating"
	Fenced               Code = "fenced"
	ConfirmationInvalid  Code = "confirmation_invalid"
	TaskBusy             Code = "task_busy"
	StatusNotAllowed     Code = "status_not_allowed"
	AcceptPending        Code = "accept_pending"
	ParentActive         Code = "parent_active"
	Uncommitted          Code = "uncommitted"
	UnresolvedMerge      Code = "unresolved_merge"
	InterruptedEnding    Code = "interrupted_ending"
	TargetOverlap        Code = "target_overlap"
	RaisedUnresolved     Code = "raised_unresolved"
	RaisedSelf           Code = "raised_self"
	BlockingRequired     Code = "blocking_required"
	ProtectedPending     Code = "protected_pending"
	RetiredParameter     Code = "retired_parameter"
	PassphraseNoRoute    Code = "passphrase_no_route"
	PassphraseWrong      Code = "passphrase_wrong"
	PassphraseUnset      Code = "passphrase_unset"
	QueuedComments       Code = "queued_comments"
	ReviewIssues         Code = "review_issues"
	AcceptCheckFailed    Code = "accept_check_failed"
	FinalBlocked         Code = "final_blocked"
	CommentDelivered     Code = "comment_delivered"
	CommentNotAuthor     Code = "comment_not_author"
	FeedbackRequired     Code = "feedback_required"
	CreationOnStart      Code = "creation_on_start"
	ParentBranchPR       Code = "parent_branch_pr"
	UsagePaused          Code = "usage_paused"
	GroundStop           Code = "ground_stop"
	Draining             Code = "draining"
	BudgetSpent          Code = "budget_spent"
	UsagePassDenied      Code = "usage_pass_denied"
	UsageUnreadable      Code = "usage_unreadable"
	AgentUnconfigured    Code = "agent_unconfigured"
	WorkingSync          Code = "working_sync"
	OwnPROnly            Code = "own_pr_only"
	NoPR                 Code = "no_pr"
	OwnStatsOnly         Code = "own_stats_only"
	ScratchBoundary      Code = "scratch_boundary"
	ReadOnlyTurn         Code = "read_only_turn"
	TitleInvalid         Code = "title_invalid"
	InvalidArguments     Code = "invalid_arguments"
	ReservedTool         Code = "reserved_tool"
	BodyTooLarge         Code = "body_too_large"
	KeyReused            Code = "key_reused"
	LimitReached         Code = "limit_reached"
	StalePage            Code = "stale_page"
	NoLoginLink          Code = "no_login_link"
	LoginDeclined        Code = "login_declined"
	ProjectRequired      Code = "project_required"
	NotBound             Code = "not_bound"
	ImportRequired       Code = "import_required"
	NothingToResume      Code = "nothing_to_resume"
	AmbiguousID          Code = "ambiguous_id"
	NotFound             Code = "not_found"
	HostedOnly           Code = "hosted_only"
	NoRepository         Code = "no_repository"
	BranchMoved          Code = "branch_moved"
	NotFastForward       Code = "not_fast_forward"
	UploadMissing        Code = "upload_missing"
	BundleDamaged        Code = "bundle_damaged"
	BundleIncomplete     Code = "bundle_incomplete"
)

// Rows returns the catalogue in a stable order.
func Rows() []Row {
	return []Row{
		{Code: Unauthenticated, Kind: fault.Unauthenticated, Message: "No valid credential was presented on this surface.", Next: []fault.Next{{For: "cli", Text: "Run `lazy login`."}, {For: "mcp", Text: "this session has no live token; stop here and report it."}}},
		{Code: SessionEnded, Kind: fault.Unauthenticated, Message: "This token was withdrawn because ⟨task⟩ was ⟨accepted, rejected, closed⟩.", Next: []fault.Next{{For: "mcp", Text: "end the turn."}}},
		{Code: WrongSurface, Kind: fault.Unauthenticated, Message: "A ⟨kind⟩ credential is not valid on ⟨surface⟩."},
		{Code: IdentityMismatch, Kind: fault.Denied, Message: "This token belongs to ⟨A⟩ but the call addressed ⟨B⟩. Nothing was done.", Next: []fault.Next{{Text: "Address ⟨A⟩."}}},
		{Code: BadSegment, Kind: fault.Invalid, Message: "The path segment names a caller: `_` for a builder, otherwise a task (id, short id, code). A ⟨shape⟩ was sent.", Next: []fault.Next{{Text: "If that was a secret, it belongs in the Authorization header."}}},
		{Code: ActorNamed, Kind: fault.Denied, Message: "This credential acts as ⟨person⟩ only; the request named ⟨other⟩.", Next: []fault.Next{{Text: "Drop the actor field."}}},
		{Code: OperatorNotAPerson, Kind: fault.Denied, Message: "The operator credential names no person, so it cannot ⟨action⟩.", Next: []fault.Next{{Text: "Use the credential of the person who is acting."}}},
		{Code: ControlOnly, Kind: fault.Denied, Message: "⟨command⟩ is reserved for the operator credential."},
		{Code: AdminOnly, Kind: fault.Denied, Message: "⟨action⟩ needs a team administrator.", Next: []fault.Next{{Text: "Ask one of: ⟨admins⟩."}}},
		{Code: ViewingAs, Kind: fault.Denied, Message: "You are viewing as ⟨name⟩. ⟨action⟩ is recorded against a person, and lazy will not put it under ⟨name⟩ or leave it unnamed. No elevation changes this.", Next: []fault.Next{{Text: "Stop viewing as ⟨name⟩ and do it as yourself."}}},
		{Code: LocalOnly, Kind: fault.Invalid, Message: "⟨command or flag⟩ exists only under `lazy up`."},
		{Code: SingleOwner, Kind: fault.Invalid, Message: "This install has one owner and issues no per-person credentials."},
		{Code: HumanOnly, Kind: fault.Denied, Message: "⟨action, argument⟩ belongs to a person; no tool performs it.", Next: []fault.Next{{For: "agent", Text: "say what you need in your report or with lazy_raise."}, {For: "builder", Text: "tell the person you work for."}}},
		{Code: TtyRequired, Kind: fault.Invalid, CLIOnly: true, Message: "⟨command⟩ needs an interactive terminal. There is no flag, variable or pipe that replaces it."},
		{Code: InContainer, Kind: fault.Invalid, CLIOnly: true, Message: "⟨command⟩ does not run inside a container: that is not a person's terminal.", Next: []fault.Next{{Text: "Run it on your own machine."}}},
		{Code: TestOverrideSet, Kind: fault.Invalid, CLIOnly: true, Message: "⟨command⟩ does not run while ⟨VAR⟩ is set.", Next: []fault.Next{{Text: "Unset it."}}},
		{Code: NotYourSubtree, Kind: fault.Denied, Message: "⟨tool⟩ changes a task, and ⟨target⟩ is neither your task ⟨self⟩ nor a direct subtask of it. Nothing was changed.", Next: []fault.Next{{Text: "Reading it is open: lazy_show, lazy_diff. To leave a finding on it: lazy_journal."}}},
		{Code: StartChildrenOnly, Kind: fault.Denied, Message: "You can start direct subtasks of ⟨self⟩ only; ⟨target⟩ is ⟨your own task, not yours⟩.", Next: []fault.Next{{Text: "lazy_create makes a subtask."}}},
		{Code: AnnotateChildrenOnly, Kind: fault.Denied, Message: "Comments and tags reach direct subtasks only, and ⟨target⟩ is not one of yours.", Next: []fault.Next{{Text: "To inform without instructing: lazy_journal."}}},
		{Code: AnnotateSelfComment, Kind: fault.Denied, Message: "A comment on your own task would come back as your own next prompt.", Next: []fault.Next{{Text: "Rationale or memory: lazy_journal. A question, decision or unrelated work: lazy_raise."}}},
		{Code: AnnotateSelfTag, Kind: fault.Denied, Message: "Tags on your own task are labels the people and the builder keep about the work."},
		{Code: AcceptSelf, Kind: fault.Denied, Message: "Accepting ⟨self⟩ is the review decision about your work; no tool makes it.", Next: []fault.Next{{Text: "Declare with lazy_final, then end the turn."}}},
		{Code: AcceptChildrenOnly, Kind: fault.Denied, Message: "You can accept direct subtasks of ⟨self⟩ only."},
		{Code: ParentNotSelf, Kind: fault.Denied, Message: "A task you ⟨create, link⟩ becomes a child of ⟨self⟩.", Next: []fault.Next{{Text: "Omit `parent` or set it to ⟨self⟩."}}},
		{Code: ParentLocked, Kind: fault.Denied, Message: "A task agent cannot change a task's parent.", Next: []fault.Next{{Text: "Describe the move in lazy_raise with blocking:false."}}},
		{Code: TreeReshape, Kind: fault.Denied, Message: "⟨tool⟩ rearranges the task tree outside your subtree and is not for task agents.", Next: []fault.Next{{Text: "Describe what you want in lazy_raise with blocking:false."}}},
		{Code: BuilderOnly, Kind: fault.Denied, Message: "⟨tool⟩ is for the builder. ⟨reason of the tool, table 3⟩"},
		{Code: AgentOnly, Kind: fault.Denied, Message: "⟨tool⟩ acts on the caller's current task, and a builder session has none."},
		{Code: ReviewSettingsSelf, Kind: fault.Denied, Message: "Review settings decide whether a review can hold your own accept, so you cannot change them on ⟨self⟩. They can be set on a direct subtask."},
		{Code: SelfWait, Kind: fault.Conflict, Message: "Waiting on your own task can only time out: it settles when this very turn ends.", Next: []fault.Next{{Text: "End the turn, or wait on one of your subtasks."}}},
		{Code: SelfTerminating, Kind: fault.Conflict, Message: "⟨tool⟩ on ⟨self⟩ would kill the turn that is making this call.", Next: []fault.Next{{Text: "End the turn; raise a blocking item if a person has to decide."}}},
		{Code: Fenced, Kind: fault.Conflict, Message: "Run ⟨epoch⟩ of ⟨task⟩ has been succeeded by run ⟨epoch⟩. Nothing was changed.", Next: []fault.Next{{For: "mcp", Text: "end the turn; what it reports is kept as history."}}},
		{Code: ConfirmationInvalid, Kind: fault.Conflict, Message: "That code is unknown, used, expired, or was issued for another call. Nothing was done.", Next: []fault.Next{{Text: "Call again without a code to get a new one."}}},
		{Code: TaskBusy, Kind: fault.Conflict, Message: "⟨task⟩ is ⟨status(substate)⟩ and runs one turn at a time; ⟨actor⟩ started this one at ⟨time⟩. Nothing was recorded, so send this again when it is idle.", Next: []fault.Next{{For: "mcp", Text: "lazy_wait"}, {For: "cli", Text: "lazy wait ⟨task⟩"}}},
		{Code: StatusNotAllowed, Kind: fault.Conflict, Message: "⟨verb⟩ does not apply to a task in ⟨status⟩. It applies to: ⟨statuses⟩."},
		{Code: AcceptPending, Kind: fault.Conflict, Message: "An accept of ⟨task⟩ is under way and may already have merged; ⟨verb⟩ could undo it.", Next: []fault.Next{{Text: "Run accept again: it resumes the one in flight."}}},
		{Code: ParentActive, Kind: fault.Conflict, Message: "⟨parent⟩ is ⟨status⟩; merging now would change files under running work.", Next: []fault.Next{{Text: "Retry when it rests."}}},
		{Code: Uncommitted, Kind: fault.Conflict, Message: "⟨task⟩ has uncommitted files that are on no branch: ⟨paths⟩.", Next: []fault.Next{{Text: "Commit what belongs to it, discard the rest, accept again."}}},
		{Code: UnresolvedMerge, Kind: fault.Conflict, Message: "⟨task⟩ holds an unresolved merge: ⟨files⟩.", Next: []fault.Next{{Text: "Sync the task."}}},
		{Code: InterruptedEnding, Kind: fault.Conflict, Message: "⟨task⟩ was cut off mid-turn, so how it ended is unknown.", Next: []fault.Next{{Text: "Give it a turn that ends normally (resume, unblock), or close it."}}},
		{Code: TargetOverlap, Kind: fault.Conflict, Message: "⟨branch⟩ is checked out at ⟨path⟩ with edits to files this change touches: ⟨paths⟩. Edits elsewhere would be kept.", Next: []fault.Next{{Text: "Commit or set aside those files, accept again."}}},
		{Code: RaisedUnresolved, Kind: fault.Conflict, Message: "⟨n⟩ blocking items are open: ⟨id title…⟩. All of them are decided in the same accept or none is.", Next: []fault.Next{{For: "person", Text: "`lazy accept` asks one by one."}, {For: "builder", Text: "pass raised_resolutions."}, {For: "agent", Text: "a person or the builder resolves these."}}},
		{Code: RaisedSelf, Kind: fault.Denied, Message: "An item is decided by someone other than the task that raised it.", Next: []fault.Next{{Text: "If it was raised in error, say so in lazy_report; a person dismisses it."}}},
		{Code: BlockingRequired, Kind: fault.Invalid, Message: "`blocking` was not given. State whether this item has to be decided before the work can merge."},
		{Code: ProtectedPending, Kind: fault.Conflict, Message: "Protected files await a decision: ⟨paths with reasons⟩. Accept takes all of them or is refused; it reverts nothing.", Next: []fault.Next{{For: "cli", Text: "`--approve-file ⟨path⟩` each."}, {For: "mcp", Text: "approved_files."}, {For: "web", Text: "the review page."}}},
		{Code: RetiredParameter, Kind: fault.Invalid, Message: "⟨parameter⟩ is not accepted on unblock. Protected files are decided at accept."},
		{Code: PassphraseNoRoute, Kind: fault.Denied, Message: "⟨branch⟩ is behind a merge passphrase. No tool can carry it; a person merges this. Your reason is the pending review of ⟨task⟩."},
		{Code: PassphraseWrong, Kind: fault.Denied, Message: "That passphrase did not match. ⟨n⟩ tries left before a pause."},
		{Code: PassphraseUnset, Kind: fault.Conflict, Message: "⟨branch⟩ needs a merge passphrase and ⟨person, machine⟩ has none.", Next: []fault.Next{{For: "person", Text: "`lazy system passphrase set`"}}},
		{Code: QueuedComments, Kind: fault.Conflict, Message: "⟨n⟩ comments by ⟨people⟩ have not reached the agent; merging would leave them unread.", Next: []fault.Next{{For: "person", Text: "unblock to deliver, or `--allow-queued-comments` / the Accept dialog's checkbox."}, {For: "mcp", Text: "deliver them with lazy_unblock."}}},
		{Code: ReviewIssues, Kind: fault.Conflict, Message: "The latest separate review ⟨left: severity title…, has no readable verdict, never ran⟩.", Next: []fault.Next{{For: "person", Text: "`lazy accept ⟨task⟩ --allow-review-issues`."}, {For: "mcp", Text: "fix and review again; a person can overrule it."}}},
		{Code: AcceptCheckFailed, Kind: fault.Failed, Message: "The accept check ⟨failed, gave no verdict⟩: ⟨command, exit, tail⟩. Nothing was merged; ⟨task⟩ is ⟨prior status⟩ again and the reason is on it as a system comment.", Next: []fault.Next{{For: "cli", Text: "`lazy accept ⟨task⟩ --allow-broken`."}, {For: "mcp", Text: "fix the task, or leave it to a person. Merging past a failing check exists as a CLI flag for a person at a terminal and has no form on this surface."}}},
		{Code: FinalBlocked, Kind: fault.Conflict, Message: "Blocking item ⟨id title⟩ is open. A turn ends declared or waiting for a decision, not both.", Next: []fault.Next{{Text: "End the turn and wait, or ask in lazy_report for it to be dismissed."}}},
		{Code: CommentDelivered, Kind: fault.Conflict, Message: "Comment ⟨id⟩ was shown to the agent at ⟨time⟩; it may have acted on it, so the text stays.", Next: []fault.Next{{Text: "Post a follow-up comment."}}},
		{Code: CommentNotAuthor, Kind: fault.Denied, Message: "Comment ⟨id⟩ was written by ⟨author⟩ and only they can change it.", Next: []fault.Next{{Text: "Post your own comment."}}},
		{Code: FeedbackRequired, Kind: fault.Invalid, Message: "Unblock delivers guidance, and there is none here.", Next: []fault.Next{{Text: "To continue without new guidance: resume."}}},
		{Code: CreationOnStart, Kind: fault.Invalid, Message: "start creates nothing; ⟨parameter⟩ belongs to create.", Next: []fault.Next{{Text: "Make the task with create; start the id from its answer."}}},
		{Code: ParentBranchPR, Kind: fault.Denied, Message: "⟨task⟩ merges into the branch of its parent ⟨parent⟩. A pull request there notifies everyone on the repository, so only a person asks for it, with `lazy submit` or the Submit button.", Next: []fault.Next{{Text: "lazy_accept on a direct subtask merges it without one."}}},
		{Code: UsagePaused, Kind: fault.Conflict, Message: "⟨credential⟩ is paused until ⟨reset⟩ to avoid paid overage.", Next: []fault.Next{{For: "person", Text: "`--past-usage-pause`."}, {For: "builder", Text: "pass past_usage_pause only if the person asked for it."}}},
		{Code: GroundStop, Kind: fault.Conflict, Message: "A ground stop is in force on ⟨scope⟩: ⟨reason⟩, by ⟨actor⟩ at ⟨time⟩. Nothing starts until a person releases it.", Next: []fault.Next{{For: "person", Text: "`lazy ground-stop release`."}}},
		{Code: Draining, Kind: fault.Conflict, Message: "⟨scope⟩ is being drained; no turn starts until that is over."},
		{Code: BudgetSpent, Kind: fault.Conflict, Message: "The budget of ⟨task⟩ is spent: ⟨used⟩ of ⟨ceiling⟩ tokens.", Next: []fault.Next{{For: "person", Text: "raise or remove it, then resume."}, {For: "agent", Text: "end the turn."}}},
		{Code: UsagePassDenied, Kind: fault.Denied, Message: "Work of this kind cannot be let past the usage pause from here."},
		{Code: UsageUnreadable, Kind: fault.Unavailable, Message: "Saved usage readings cannot be read: ⟨record or file⟩. Nothing launches past this.", Next: []fault.Next{{For: "operator", Text: "repair that record"}}},
		{Code: AgentUnconfigured, Kind: fault.Conflict, Message: "Agent ⟨id⟩ needs a key that is not stored, so ⟨task⟩ was not launched.", Next: []fault.Next{{For: "person", Text: "`lazy system agent set-key ⟨id⟩`."}, {For: "mcp", Text: "a person has to store it."}}},
		{Code: WorkingSync, Kind: fault.Conflict, Message: "⟨task⟩ is working; only its own agent can merge into the tree it is using.", Next: []fault.Next{{Text: "Sync when it rests."}}},
		{Code: OwnPROnly, Kind: fault.Denied, Message: "You can read the pull request of ⟨self⟩ only."},
		{Code: NoPR, Kind: fault.NotFound, Message: "⟨task⟩ has no recorded pull or merge request."},
		{Code: OwnStatsOnly, Kind: fault.Denied, Message: "Per-task spend is shown for your own task, and its descendants with subtree:true. Model summaries cover the whole project.", Next: []fault.Next{{Text: "Omit task_id."}}},
		{Code: ScratchBoundary, Kind: fault.Denied, Message: "Scratch is shared by the builder and people only.", Next: []fault.Next{{Text: "Own rationale: lazy_journal. Shared knowledge: lazy_memory_recall."}}},
		{Code: ReadOnlyTurn, Kind: fault.Denied, Message: "This turn answers a question and cannot change anything; ⟨tool⟩ is a write.", Next: []fault.Next{{Text: "Put what should happen in your answer."}}},
		{Code: TitleInvalid, Kind: fault.Invalid, Message: "A message title is one line without control characters.", Next: []fault.Next{{Text: "Move the rest to `body`."}}},
		{Code: InvalidArguments, Kind: fault.Invalid, Message: "⟨field⟩: ⟨expected⟩, got ⟨actual⟩."},
		{Code: ReservedTool, Kind: fault.Invalid, Message: "There is no ⟨tool⟩. ⟨one line: why, and what to use⟩"},
		{Code: BodyTooLarge, Kind: fault.TooLarge, Message: "This request is ⟨size⟩; the limit is 5 MB."},
		{Code: KeyReused, Kind: fault.Conflict, Message: "This idempotency key was used at ⟨time⟩ for another request. Nothing was done.", Next: []fault.Next{{Text: "Send it under a new key."}}},
		{Code: LimitReached, Kind: fault.Limited, Message: "⟨team⟩ is at its limit of ⟨n⟩ ⟨live turns, starts per minute, concurrent waits, hooks per minute, stored bytes⟩."},
		{Code: StalePage, Kind: fault.Conflict, Message: "⟨who⟩ changed this at ⟨time⟩: ⟨what⟩. Nothing was written.", Next: []fault.Next{{Text: "Reload and decide again."}}},
		{Code: NoLoginLink, Kind: fault.Denied, Message: "Sign-in links are made on a person's own machine in local mode; here, sign in at ⟨url⟩."},
		{Code: LoginDeclined, Kind: fault.Denied, Message: "The sign-in request was ⟨declined, not approved in time⟩.", Next: []fault.Next{{For: "cli", Text: "Run `lazy login` again."}}},
		{Code: ProjectRequired, Kind: fault.Invalid, CLIOnly: true, Message: "No terminal to ask on, so name the project with `--project`. It is never guessed from the git remote."},
		{Code: NotBound, Kind: fault.Invalid, CLIOnly: true, Message: "This clone is not bound to a project.", Next: []fault.Next{{Text: "`lazy project bind ⟨project⟩`"}}},
		{Code: ImportRequired, Kind: fault.Invalid, CLIOnly: true, Message: "Conversation ⟨id⟩ is stored but no builder session of this project ever ran it; to resume it is to take it over.", Next: []fault.Next{{Text: "To take it over on purpose: `lazy builder --resume ⟨id⟩ --import`"}}},
		{Code: NothingToResume, Kind: fault.Invalid, CLIOnly: true, Message: "There is no conversation ⟨word⟩ to go on with: ⟨why⟩."},
		{Code: AmbiguousID, Kind: fault.Conflict, Message: "⟨word⟩ fits ⟨n⟩ tasks or conversations: ⟨id code title…⟩.", Next: []fault.Next{{Text: "Use the full id or more characters."}}},
		{Code: NotFound, Kind: fault.NotFound, Message: "No ⟨thing⟩ ⟨id⟩ in this project."},
		{Code: HostedOnly, Kind: fault.Invalid, Message: "⟨command⟩ is for a hosted project, whose repository lies with the control plane; this one works in your own.", Next: []fault.Next{{For: "person", Text: "use git."}}},
		{Code: NoRepository, Kind: fault.Conflict, Message: "This project has no commits yet, so there is nothing to work on.", Next: []fault.Next{{For: "person", Text: "`lazy push` in a clone of the repository."}}},
		{Code: BranchMoved, Kind: fault.Conflict, Message: "⟨branch⟩ is at ⟨head⟩, not at ⟨expected⟩: somebody pushed to it or merged a task meanwhile. Nothing was changed.", Next: []fault.Next{{For: "person", Text: "`lazy pull ⟨branch⟩`, merge or rebase, push again."}}},
		{Code: NotFastForward, Kind: fault.Conflict, Message: "⟨branch⟩ has commits that the pushed one lacks: it is at ⟨head⟩. Nothing was changed.", Next: []fault.Next{{For: "person", Text: "`lazy pull ⟨branch⟩`, merge or rebase, push again; or `lazy push --force` to drop them."}}},
		{Code: UploadMissing, Kind: fault.Conflict, Message: "What was to be uploaded for push ⟨id⟩ is not there, or is not what was announced. Nothing was changed.", Next: []fault.Next{{For: "person", Text: "push again."}}},
		{Code: BundleDamaged, Kind: fault.Invalid, Message: "What was pushed to ⟨branch⟩ is not a whole git bundle of ⟨commit⟩, or git does not accept an object in it. Nothing was changed.", Next: []fault.Next{{For: "person", Text: "`git fsck` in your clone, then push again."}}},
		{Code: BundleIncomplete, Kind: fault.Conflict, Message: "The pushed commits build on ⟨commit⟩, which the project's repository does not have. Nothing was changed.", Next: []fault.Next{{For: "person", Text: "push again; a shallow clone has to be made whole first: `git fetch --unshallow`."}}},
	}
}
