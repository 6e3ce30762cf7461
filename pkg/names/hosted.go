package names

// Environment variables of the hosted functions beside those of the stack. None
// is a secret.
const (
	EnvVersion = "LAZY_VERSION"      // of what is deployed
	EnvParked  = "LAZY_PARKED_QUEUE" // address of the queue for what nobody can understand
	EnvRunner  = "LAZY_RUNNER"       // RunnerFargate, or RunnerProcess
	EnvState   = "LAZY_STATE"        // RunnerProcess: the folder of workspaces and runs
	EnvAgent   = "LAZY_AGENT"        // RunnerProcess: the program that runs supervisors
	EnvSandbox = "LAZY_SANDBOX"      // RunnerProcess: "none" runs agents without one
)

// Values of EnvRunner.
const (
	RunnerFargate = "fargate"
	RunnerProcess = "process" // supervisors as processes of this machine, in place of Fargate
)

// TenantReserved is the tenant of the control plane itself; nobody can have it.
const TenantReserved = "lazyplane"
