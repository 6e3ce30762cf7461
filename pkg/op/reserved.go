package op

import (
	"sync"

	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// Reserved returns the refusal of a tool name that must never be a tool, nil for
// any other name (surfaces 3.4). The line says why and what to use instead.
func Reserved(tool string) error {
	line, ok := reserved()[tool]
	if !ok {
		return nil
	}
	return refusal.Of(refusal.ReservedTool, tool, line)
}

// ReservedNames lists the names that must never be tools.
func ReservedNames() []string {
	names := make([]string, 0, len(reserved()))
	for name := range reserved() {
		names = append(names, name)
	}
	return names
}

var reserved = sync.OnceValue(func() map[string]string {
	rows := []struct {
		line  string
		tools []string
	}{
		{"Unrelated work is recorded with lazy_raise.", []string{"lazy_propose"}},
		{"Git on refs is lazy's own work; use lazy_commit and lazy_sync.", []string{"lazy_internal_git"}},
		{"An artifact may be the only copy of an input; people remove it with `lazy artifact rm`.", []string{"lazy_artifact_remove"}},
		{"Read `dashboard_url` on lazy_status.", []string{"lazy_dashboard_url"}},
		{"Rewriting a linked task's prompt spends a person's credential; a person runs it. Report that it is stale.", []string{"lazy_describe"}},
		{"The merge passphrase never travels through a tool.", []string{"lazy_approve", "lazy_passphrase"}},
		{"Decided by a person.", []string{"lazy_protect", "lazy_env", "lazy_auth", "lazy_login", "lazy_logout"}},
		{"The project's default agent and its keys are a person's; for one subtask use `agent` on lazy_create or lazy_start.", []string{"lazy_default_agent", "lazy_agent_key"}},
		{"A person decides about images at a terminal.", []string{"lazy_pin_image", "lazy_adopt_image", "lazy_upgrade"}},
		{"Signing in to the web is a person's; the address is `dashboard_url` on lazy_status.", []string{"lazy_login_link", "lazy_dashboard"}},
		{"A person works there interactively.", []string{"lazy_builder", "lazy_pair", "lazy_chat", "lazy_revert", "lazy_browse"}},
		{"These manage what you run inside; report what is wrong.", []string{
			"lazy_init", "lazy_up", "lazy_demo", "lazy_version", "lazy_doctor", "lazy_plane", "lazy_daemon", "lazy_system",
			"lazy_config", "lazy_watch", "lazy_completion", "lazy_export_dockerfile", "lazy_logs",
		}},
		{"They belong to whoever drives the session.", []string{"lazy_loop", "lazy_branch"}},
		{"Work over the whole project on a person's credential; a person runs it.", []string{"lazy_memory_compact", "lazy_project_report"}},
		{"A raw model call has no owner to check; use lazy_ask, lazy_review or lazy_conversation_ask.", []string{"lazy_one_shot", "lazy_run_prompt"}},
		{"A terminal into a container is a person's review tool; an agent already runs in its own.", []string{"lazy_shell", "lazy_exec"}},
		{"A sign-off says a person looked.", []string{"lazy_region_sign_off", "lazy_region_annotate"}},
		{"Post a follow-up comment; both ride the same prompt.", []string{"lazy_comment_edit"}},
		{"A person promotes; suggest it with lazy_raise and blocking:false.", []string{"lazy_conversation_promote", "lazy_discussion_promote"}},
	}
	m := map[string]string{}
	for _, r := range rows {
		for _, t := range r.tools {
			if _, dup := m[t]; dup {
				panic("op: reserved twice: " + t)
			}
			m[t] = r.line
		}
	}
	return m
})
