package names

// Where the two containers of a hosted run meet. Both see the same paths.
const (
	HostedBin     = "/lazy/bin" // this program; the agent's container sees it read-only
	HostedHelper  = HostedBin + "/" + AgentBinary
	HostedSockets = "/lazy/run"                         // sockets; the agent's user cannot write here
	HostedExec    = HostedSockets + "/helper/exec.sock" // of the helper in the agent's container
	HostedHome    = "/lazy/home"
	HostedWork    = "/lazy/work"    // tree, git directory, objects and repository
	HostedPrivate = "/lazy/private" // the supervisor's own

	HostedUID = 10001 // the agent's user

	// EnvStart carries what a launch hands over: ids, and the nonce.
	EnvStart = "LAZY_START"
)
