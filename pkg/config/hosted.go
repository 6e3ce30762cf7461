package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// Hosted is what a hosted function is told by its environment.
type Hosted struct {
	Region  string
	Table   string
	Bucket  string
	Key     string            // ARN of the KMS key that wraps data keys
	Flows   map[string]string // ARN of each state machine, by its name
	Bus     string            // "" when nobody is told of events
	URL     string            // as supervisors and people reach the control plane; "" when only the request tells
	Edge    string            // what the distribution in front proves itself with; "" where there is none
	Parked  string            // address of the queue for what nobody can understand; "" for none
	Version string
	// ForgeSecret is the ARN of the secret with the forge App's key; "" for none.
	ForgeSecret string
	Process     *Process // supervisors run as processes of this machine, nil on Fargate
	Fargate     *Fargate // nil in a function that starts and watches no runs
}

// Fargate is where runs are started and watched.
type Fargate struct {
	Cluster       string
	Family        string
	Subnets       []string
	SecurityGroup string
	Supervisor    string // image by digest; "" before the first one is pushed
	Runtime       string // image for projects that name none
	ExecutionRole string
	Logs          string
	CPU           int32
	MemoryMiB     int32
	DiskGiB       int32
}

// Process is the stand-in for Fargate on one machine.
type Process struct {
	State string
	Agent string
	Host  bool // without a sandbox
}

// envRegion is set by the service itself.
const envRegion = "AWS_REGION"

// LoadHosted reads a function's environment and reports every problem at once.
func LoadHosted(getenv func(string) string) (Hosted, error) {
	var problems []string
	need := func(name string) string {
		v := getenv(name)
		if v == "" {
			problems = append(problems, name+" is not set")
		}
		return v
	}
	h := Hosted{
		Region: need(envRegion), Table: need(names.EnvTable), Bucket: need(names.EnvBucket), Key: need(names.EnvKey), Flows: map[string]string{},
		Bus: getenv(names.EnvBus), URL: strings.TrimRight(getenv(names.EnvURL), "/"), Edge: getenv(names.EnvEdge), Parked: getenv(names.EnvParked), Version: getenv(names.EnvVersion),
		ForgeSecret: getenv(names.EnvForgeSecret),
	}
	for name, env := range map[string]string{
		names.MachineTurn: names.EnvMachineTurn, names.MachineRecovery: names.EnvMachineRecov, names.MachineAccept: names.EnvMachineAccept,
	} {
		h.Flows[name] = need(env)
	}
	switch kind := getenv(names.EnvRunner); kind {
	case "", names.RunnerFargate:
		if getenv(names.EnvCluster) == "" {
			break
		}
		amount := func(name string) int32 {
			n, err := strconv.ParseInt(need(name), 10, 32)
			if err != nil && getenv(name) != "" {
				problems = append(problems, fmt.Sprintf("%s is %q; expected a number", name, getenv(name)))
			}
			return int32(n)
		}
		h.Fargate = &Fargate{
			Cluster: need(names.EnvCluster), Family: need(names.EnvTaskFamily), Subnets: strings.Split(need(names.EnvSubnets), ","),
			SecurityGroup: need(names.EnvSecurityGroup), Supervisor: getenv(names.EnvSupervisor), Runtime: getenv(names.EnvRuntime),
			ExecutionRole: need(names.EnvExecutionRole), Logs: need(names.EnvRunLogs),
			CPU: amount(names.EnvRunCPU), MemoryMiB: amount(names.EnvRunMemory), DiskGiB: amount(names.EnvRunDisk),
		}
	case names.RunnerProcess:
		h.Process = &Process{
			State: need(names.EnvState), Agent: need(names.EnvAgent),
			Host: getenv(names.EnvSandbox) == "none",
		}
		if h.URL == "" {
			problems = append(problems, names.EnvURL+" is not set, and supervisors must be told where to report")
		}
	default:
		problems = append(problems, fmt.Sprintf("%s is %q; expected %q or %q", names.EnvRunner, kind, names.RunnerFargate, names.RunnerProcess))
	}
	if len(problems) > 0 {
		return Hosted{}, fault.New(fault.Invalid, "the function's environment is not complete:\n  %s", strings.Join(problems, "\n  ")).
			WithDetail("problems", problems)
	}
	return h, nil
}
