package names

// HTTP headers.
const (
	HeaderHeartbeat   = "X-Lazy-Heartbeat"   // the client wants the NDJSON envelope
	HeaderOperation   = "X-Lazy-Operation"   // id of the operation, from the start of the answer
	HeaderIdempotency = "X-Lazy-Idempotency" // the caller's key for a mutating call
	HeaderActor       = "X-Lazy-Actor"       // role a local control caller asks to be recorded as
	HeaderProject     = "X-Lazy-Project"     // project a person's request is about, when it is not the one they signed in to
	HeaderHold        = "X-Lazy-Hold"        // most milliseconds the caller wants the request held
	HeaderTurn        = "X-Lazy-Turn"        // stamp of the supervisor on a relayed call
	HeaderEpoch       = "X-Lazy-Epoch"
	HeaderCommit      = "X-Lazy-Commit" // the broker's evidence: JSON of identity.Commit
	HeaderRequest     = "X-Lazy-Request"
	HeaderTrace       = "Traceparent" // of W3C Trace Context
)

// Environment variables a person or a launcher may set.
const (
	EnvHome     = "LAZY_HOME"   // state base directory; default ~/.lazy
	EnvTarget   = "LAZY_TARGET" // address of a running control plane
	EnvToken    = "LAZY_TOKEN"  // credential for EnvTarget
	EnvActor    = "LAZY_ACTOR"  // "builder" marks scripted use of the local credential
	EnvReadOnly = "LAZY_MCP_READ_ONLY"
	EnvDebug    = "LAZY_DEBUG"
)

// Environment variables of an agent's process. None is a secret.
const (
	EnvSocket     = "LAZY_SOCKET"      // the supervisor's unix socket
	EnvTask       = "LAZY_TASK"        // the task's id
	EnvTaskCode   = "LAZY_TASK_CODE"   // its code
	EnvTurnKind   = "LAZY_TURN_KIND"   // work, ask, …
	EnvPromptFile = "LAZY_PROMPT_FILE" // where the prompt also lies
	EnvSession    = "LAZY_SESSION"     // session to resume, empty on the first turn
)

// State machines.
const (
	MachineTurn     = "turn"
	MachineRecovery = "recovery"
	MachineAccept   = "accept"
)

// Steps, each with the version that selects it (SY-042).
const (
	StepPrepare      = "prepare.v1"
	StepLaunch       = "launch.v1"
	StepRun          = "run.v1"
	StepRecord       = "record.v1"
	StepDecide       = "decide.v1"
	StepRenew        = "renew.v1"
	StepHandOver     = "handover.v1"
	StepConfirm      = "confirm.v1"
	StepStop         = "stop.v1"
	StepCrash        = "crash.v1"
	StepResume       = "resume.v1"
	StepDescribe     = "describe.v1"
	StepIntent       = "intent.v1"
	StepPlan         = "intent.v2"
	StepBroker       = "broker.v1"
	StepLand         = "land.v1"
	StepComplete     = "complete.v1"
	StepCleanUp      = "cleanup.v1"
	StepAbort        = "abort.v1"
	StepAcceptFailed = "acceptfailed.v1"
)

// AgentBinary is the second name of the one program.
const AgentBinary = "lazy-agent"

// Sentinel is what `lazy-agent selfcheck` prints before the version (WF-11).
const Sentinel = "lazy-agent ok"
