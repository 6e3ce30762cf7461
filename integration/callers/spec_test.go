package callers

import (
	"slices"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
)

// row says of one tool how callers are refused; "" is a caller who may. It is
// written from the specification (tables 3.1 to 3.3), not from the catalogue, and
// has the tools that the catalogue lacks too.
type row struct {
	builder            string
	self, child, other string // of a task agent, by what it addresses
}

func spec() map[string]row {
	subtree := row{other: "not_your_subtree"}
	ending := row{self: "self_terminating", other: "not_your_subtree"}
	agents := row{builder: "agent_only"}
	only := func(code string) row { return row{self: code, child: code, other: code} }
	tag := row{self: "annotate_self_tag", other: "annotate_children_only"}
	rows := map[string]row{
		"lazy_create": {}, "lazy_link": {}, "lazy_journal": {}, "lazy_message_post": {}, "lazy_conversation_ask": {},
		"lazy_start":  {self: "start_children_only", other: "start_children_only"},
		"lazy_accept": {self: "accept_self", other: "accept_children_only"},
		"lazy_reopen": {self: "not_your_subtree", other: "not_your_subtree"},
		"lazy_stop":   ending, "lazy_reject": ending, "lazy_close": ending,
		"lazy_redo": only("tree_reshape"), "lazy_clone": only("tree_reshape"), "lazy_reparent": only("tree_reshape"),
		"lazy_comment": {self: "annotate_self_comment", other: "annotate_children_only"},
		"lazy_tag":     tag, "lazy_untag": tag,
		"lazy_raised_promote": only("builder_only"), "lazy_memory_save": only("builder_only"), "lazy_message_dismiss": only("builder_only"),
		"lazy_raised_resolve": only("raised_self"), "lazy_scratch": only("scratch_boundary"),
		"lazy_wait":            {self: "self_wait"},
		"lazy_token_stats":     {child: "own_stats_only", other: "own_stats_only"}, // descendants by subtree:true
		"lazy_review_comments": {child: "own_pr_only", other: "own_pr_only"},
		"lazy_review_status":   {child: "own_pr_only", other: "own_pr_only"},
	}
	for _, name := range []string{"edit", "unblock", "resume", "sync", "submit", "ask", "review", "artifact_add"} {
		rows["lazy_"+name] = subtree
	}
	for _, name := range []string{"commit", "raise", "update_progress", "final", "report", "justify_protected", "justify_maintain"} {
		rows["lazy_"+name] = agents
	}
	for _, name := range openReads() {
		rows[name] = row{}
	}
	return rows
}

// openReads are the reads that every task agent has on every task (CM-021).
func openReads() []string {
	return []string{
		"lazy_list", "lazy_active", "lazy_blocked", "lazy_status", "lazy_show", "lazy_diff", "lazy_search", "lazy_regions",
		"lazy_conversations", "lazy_conversation_show", "lazy_memory_recall", "lazy_messages", "lazy_raised_items",
		"lazy_artifact_list", "lazy_artifact_get",
	}
}

// narrowedReads are the only reads that are withheld from a task agent, or
// narrowed for it (CM-022), beside the wait on oneself (CM-025).
func narrowedReads() []string {
	return []string{
		"lazy_scratch", "lazy_usage_limits", "lazy_token_stats", "lazy_review_comments", "lazy_review_status", "lazy_wait",
	}
}

// rowOf is what an operation's tool must answer. A tool that the specification
// does not have is held to what it declares itself.
func rowOf(o op.Op) row {
	if r, ok := spec()[o.Tool]; ok {
		return r
	}
	var r row
	if !o.Builder {
		r.builder = string(o.Refuse)
	}
	if !o.Agent {
		return row{builder: r.builder, self: string(o.Refuse), child: string(o.Refuse), other: string(o.Refuse)}
	}
	if o.Rule.Agent&app.Self == 0 {
		r.self = o.Rule.Self
	}
	if o.Rule.Agent&app.Child == 0 {
		r.child = o.Rule.Else
	}
	if o.Rule.Agent&app.Other == 0 && len(slots(o.In)) > 0 {
		r.other = o.Rule.Else
	}
	return r
}

// refusalOn is how a credential kind is refused a command of /rpc; "" when it
// may. Reads are for people and for the operator, writes are a person's.
func refusalOn(o op.Op, k identity.Kind) string {
	switch k {
	case identity.Builder, identity.Task, identity.Runner, identity.Session:
		return "wrong_surface"
	case identity.Operator:
		if !slices.Contains(o.People, k) {
			return "operator_not_a_person"
		}
	default:
		if !slices.Contains(o.People, k) {
			return "control_only"
		}
	}
	return ""
}

// personal are refusals that are about who calls, and on which task.
func personal() []string {
	return []string{
		"unauthenticated", "session_ended", "wrong_surface", "identity_mismatch", "actor_named", "operator_not_a_person",
		"control_only", "admin_only", "human_only", "not_your_subtree", "start_children_only", "annotate_children_only",
		"annotate_self_comment", "annotate_self_tag", "accept_self", "accept_children_only", "parent_not_self", "parent_locked",
		"tree_reshape", "builder_only", "agent_only", "self_wait", "self_terminating", "raised_self", "scratch_boundary",
		"own_pr_only", "own_stats_only",
	}
}
