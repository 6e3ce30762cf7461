package names

import "time"

// Surfaces of the deployed product: each is a program functions/<name>, built
// into one Lambda function.
const (
	SurfaceRPC    = "rpc"
	SurfaceMCP    = "mcp"
	SurfaceRunner = "runner"
	SurfaceAuth   = "auth"
	SurfaceStep   = "step"
	SurfaceEvents = "events"
	// SurfacePublish tells others what happened. It is apart from SurfaceEvents so
	// that neither waits for the other, and may do nothing else.
	SurfacePublish = "publish"
)

// Surfaces lists them all.
func Surfaces() []string {
	return []string{SurfaceRPC, SurfaceMCP, SurfaceRunner, SurfaceAuth, SurfaceStep, SurfaceEvents, SurfacePublish}
}

// Environment variables of the functions. Every value is a name or an address;
// none is a secret.
const (
	EnvStage         = "LAZY_STAGE"
	EnvTable         = "LAZY_TABLE"
	EnvBucket        = "LAZY_BUCKET"
	EnvKey           = "LAZY_KEY"          // ARN of the KMS key that wraps the tenants' data keys
	EnvBus           = "LAZY_BUS"          // event bus for domain events
	EnvURL           = "LAZY_URL"          // root address of the control plane
	EnvMachineTurn   = "LAZY_MACHINE_TURN" // ARN
	EnvMachineRecov  = "LAZY_MACHINE_RECOVERY"
	EnvMachineAccept = "LAZY_MACHINE_ACCEPT"
	EnvCluster       = "LAZY_CLUSTER"
	EnvTaskFamily    = "LAZY_TASK_FAMILY" // prefix of the task definitions' families
	EnvSubnets       = "LAZY_SUBNETS"     // separated by commas
	EnvSecurityGroup = "LAZY_SECURITY_GROUP"
	EnvSupervisor    = "LAZY_SUPERVISOR_IMAGE"       // by digest; "" before the first one is pushed
	EnvRuntime       = "LAZY_RUNTIME_IMAGE"          // for projects that name none, by digest
	EnvExecutionRole = "LAZY_EXECUTION_ROLE"         // ARN
	EnvRunLogs       = "LAZY_RUN_LOGS"               // log group of the containers
	EnvRunCPU        = "LAZY_RUN_CPU"                // in units of 1/1024
	EnvRunMemory     = "LAZY_RUN_MEMORY"             // in MiB
	EnvRunDisk       = "LAZY_RUN_DISK"               // in GiB
	EnvOTLP          = "OTEL_EXPORTER_OTLP_ENDPOINT" // "" traces nothing
	EnvForgeSecret   = "LAZY_FORGE_SECRET"           // ARN of the secret with the forge App's key
	EnvEdge          = "LAZY_EDGE"                   // what the distribution proves itself with
)

// HeaderHost carries the name a viewer asked for. The function in front of the
// API sets it, because the API is called under a name of its own; whoever passes
// that function by can only misname the host to himself.
const HeaderHost = "X-Lazy-Host"

// HeaderEdge carries what EnvEdge is to the functions: the distribution in front of
// the API sets it, in place of whatever a viewer sent, so that a function knows
// which requests came through it.
const HeaderEdge = "X-Lazy-Edge"

// Attributes of the table that its keys and its expiry are in.
const (
	TablePK  = "pk"
	TableSK  = "sk"
	TableTTL = "ttl"
)

// TableIndexes lists the secondary indexes. The keys of each are its name with
// _pk and _sk, both texts, and it holds keys alone.
func TableIndexes() []string { return []string{"due", "past", "find"} }

// OutboxPrefix begins the sort key of an outbox row, HistoryPrefix that of a row
// which says that a task's status changed. TableFollow is the attribute
// that another row is marked with whose writing asks for work as well.
const (
	OutboxPrefix  = "OUT#"
	HistoryPrefix = "HIS#"
	TableFollow   = "follow"
)

// How long each function may run. A held request answers before its function
// ends, and a function ends before the API stops waiting for it.
const (
	TimeoutRPC     = HopHosted + 4*time.Second
	TimeoutMCP     = HopMCPDirect + 8*time.Second
	TimeoutRunner  = HopHosted + 4*time.Second
	TimeoutAuth    = HopHosted + 4*time.Second
	TimeoutStep    = 15 * time.Minute
	TimeoutEvents  = 2 * time.Minute
	TimeoutPublish = time.Minute
)

// The namespace of the product's metrics, and the metrics that alarms watch. A log
// line counts one by the attribute AttrMetric, and by AttrCount more than once.
const (
	AttrMetric        = "metric"
	AttrCount         = "count"
	MetricNamespace   = "Lazyplane"
	MetricSweepRepair = "SweepRepairs"   // a sweep found work that its event should have done
	MetricBreaker     = "BreakerTrips"   // three turns of a task died in a row
	MetricLaunch      = "LaunchFailures" // a run could not be started
	MetricNonce       = "NonceReplays"   // a nonce was claimed a second time
)

// Metrics lists the metrics.
func Metrics() []string {
	return []string{MetricSweepRepair, MetricBreaker, MetricLaunch, MetricNonce}
}

// Machines lists the state machines.
func Machines() []string { return []string{MachineTurn, MachineRecovery, MachineAccept} }

// KeyContext is the name under which the tenant is bound into a wrapped data key.
const KeyContext = "tenant"
