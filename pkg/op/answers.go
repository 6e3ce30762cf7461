package op

import "github.com/lazyplane/lazyplane/pkg/app"

// The answers of operations, for surfaces and clients that print them: what an
// operation answers is part of the catalogue, whichever use case makes it.
type (
	// Created answers createTask.
	Created = app.Created
	// Edited answers editTask.
	Edited = app.Edited
	// Row is a task in a listing.
	Row = app.Row
	// Listing answers listTasks, listActive and listBlocked.
	Listing = app.Listing
	// Shown answers showTask.
	Shown = app.Shown
	// TurnShown is one entry of a task's conversation.
	TurnShown = app.TurnShown
	// TaskState is where one task is.
	TaskState = app.TaskState
	// Standing answers getStatus.
	Standing = app.Standing
	// Identity answers whoAmI.
	Identity = app.Identity
	// Projects answers listProjects.
	Projects = app.Projects
	// DiffShown answers diffTask.
	DiffShown = app.DiffShown
	// Found answers search.
	Found = app.Found
	// Waited answers waitTasks.
	Waited = app.Waited
	// Commented answers addComment and editComment.
	Commented = app.Commented
	// Journaled answers addJournal.
	Journaled = app.Journaled
	// RaisedShown answers showRaised.
	RaisedShown = app.RaisedShown
	// RaisedList answers listRaised.
	RaisedList = app.RaisedList
	// CredentialShown answers putModelCredential.
	CredentialShown = app.CredentialShown
	// BuilderToken answers mintBuilderToken.
	BuilderToken = app.BuilderToken
	// Conversations answers listConversations.
	Conversations = app.Conversations
	// ConversationShown is one of them.
	// ConversationShown is one of them.
	ConversationShown = app.ConversationShown
	// Credentials answers listModelCredentials.
	Credentials = app.Credentials
	// Removed answers deleteModelCredential.
	Removed = app.Removed
	// Explained answers explainTask.
	Explained = app.Explained
	// TokenStats answers tokenStats.
	TokenStats = app.TokenStats
	// Spend is what one model was asked and answered.
	Spend = app.Spend
	// UsageLimits answers usageLimits.
	UsageLimits = app.UsageLimits
	// LetPast answers letTaskPastPause.
	LetPast = app.LetPast
	// GateState answers groundStopStatus and what engages and releases.
	GateState = app.GateState
	// Flag is a ground stop or a drain in force.
	Flag = app.Flag
	// RunAck is a running turn under a ground stop.
	RunAck = app.RunAck
	// Checked answers checkDeep.
	Checked = app.Checked
	// Finding is one of them.
	Finding = app.Finding
	// Synced answers syncTask.
	Synced = app.Synced
	// Resolutions answers resolveRaised and setRaisedBlocking.
	Resolutions = app.Resolutions
)
