package names

// AgentCLIs are the ids of the agents that lazy starts itself, so that a project
// need not say how.
func AgentCLIs() []string { return []string{"claude-code", "codex", "opencode"} }
