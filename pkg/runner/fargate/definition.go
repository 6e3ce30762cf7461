package fargate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// The containers of a task, and what they share.
const (
	Supervisor = "supervisor"
	Agent      = "agent"
	Helper     = "helper" // puts the helper where any image can start it, and ends
	Broker     = "broker" // of an accept; the only container of its task

	// StopTimeout is how long a supervisor has after SIGTERM: for a last
	// checkpoint and its report. It is the most that Fargate grants.
	StopTimeout = 120

	// kept is the memory in MiB that an agent never gets.
	kept = 512

	// BrokerCPU is in units of 1/1024 vCPU what the broker of an accept gets: git
	// on one repository.
	BrokerCPU = 1024
	// BrokerMemoryMiB is its memory.
	BrokerMemoryMiB = 2048
)

// Definition is what all task definitions of a deployment have in common.
type Definition struct {
	Family          string // prefix of the families
	SupervisorImage string // by digest
	ExecutionRole   string // pulls images and writes logs; there is no task role
	LogGroup        string
	Region          string
	CPU             int32 // in 1024ths of a processor
	MemoryMiB       int32
	DiskGiB         int32
	ARM             bool
}

var pinned = pattern.New(`^[a-z0-9][a-zA-Z0-9._:/-]*@sha256:[0-9a-f]{64}$`)

// define returns a task definition, and registers it when there is none: a launch
// cannot change an image, so each digest has its own (AG-026).
func (r *Runner) define(ctx context.Context, in *ecs.RegisterTaskDefinitionInput) (string, error) {
	for _, c := range in.ContainerDefinitions {
		if i := aws.ToString(c.Image); !pinned.MatchString(i) {
			return "", fault.New(fault.Invalid, "%q does not name an image by its digest", i).
				WithNext("Name it as repository@sha256:…, so that it cannot become another image.")
		}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("describe task definition: %w", err)
	}
	sum := sha256.Sum256(body)
	in.Family = aws.String(r.c.Task.Family + "-" + hex.EncodeToString(sum[:12]))
	have, err := r.api.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: in.Family})
	if err == nil && have.TaskDefinition.Status == types.TaskDefinitionStatusActive {
		return aws.ToString(have.TaskDefinition.TaskDefinitionArn), nil
	}
	if e, ok := errors.AsType[smithy.APIError](err); err != nil && (!ok || e.ErrorCode() != "ClientException") {
		return "", refused(ctx, err)
	}
	made, err := r.api.RegisterTaskDefinition(ctx, in)
	if err != nil {
		return "", refused(ctx, err)
	}
	return aws.ToString(made.TaskDefinition.TaskDefinitionArn), nil
}

// broker is the definition of an accept's broker: one trusted container, and nothing
// that a project chose.
func (d Definition) broker() *ecs.RegisterTaskDefinitionInput {
	in := d.frame(BrokerCPU, BrokerMemoryMiB)
	in.ContainerDefinitions = []types.ContainerDefinition{{
		Name: aws.String(Broker), Image: &d.SupervisorImage, Essential: aws.Bool(true), MemoryReservation: aws.Int32(256),
		Command:                []string{"broker", "--hosted", "--protocol-dir", names.HostedPrivate + "/run"},
		ReadonlyRootFilesystem: aws.Bool(true), StopTimeout: aws.Int32(StopTimeout),
		LinuxParameters: closed(), LogConfiguration: d.logs(Broker),
		MountPoints: []types.MountPoint{mount("private", names.HostedPrivate, false), mount("private-tmp", "/tmp", false)},
	}}
	for _, v := range []string{"private", "private-tmp"} {
		in.Volumes = append(in.Volumes, types.Volume{Name: &v})
	}
	return in
}

// frame is what all definitions have in common.
func (d Definition) frame(cpu, memory int32) *ecs.RegisterTaskDefinitionInput {
	arch := types.CPUArchitectureX8664
	if d.ARM {
		arch = types.CPUArchitectureArm64
	}
	in := &ecs.RegisterTaskDefinitionInput{
		ExecutionRoleArn: &d.ExecutionRole, NetworkMode: types.NetworkModeAwsvpc,
		RequiresCompatibilities: []types.Compatibility{types.CompatibilityFargate},
		Cpu:                     aws.String(fmt.Sprint(cpu)), Memory: aws.String(fmt.Sprint(memory)),
		RuntimePlatform: &types.RuntimePlatform{CpuArchitecture: arch, OperatingSystemFamily: types.OSFamilyLinux},
	}
	if d.DiskGiB > 0 {
		in.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: d.DiskGiB}
	}
	return in
}

func mount(volume, at string, ro bool) types.MountPoint {
	return types.MountPoint{SourceVolume: &volume, ContainerPath: &at, ReadOnly: &ro}
}

func (d Definition) logs(stream string) *types.LogConfiguration {
	return &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: map[string]string{
		"awslogs-group": d.LogGroup, "awslogs-region": d.Region, "awslogs-stream-prefix": stream,
	}}
}

// closed takes every capability away but those to keep.
func closed(keep ...string) *types.LinuxParameters {
	return &types.LinuxParameters{InitProcessEnabled: aws.Bool(false), Capabilities: &types.KernelCapabilities{Drop: without(keep)}}
}

// input is the definition of one image. The supervisor is trusted and the agent
// is not: they share the mounts, the sockets and a loopback, and nothing else.
func (d Definition) input(image string) *ecs.RegisterTaskDefinitionInput {
	filled := []types.ContainerDependency{{ContainerName: aws.String(Helper), Condition: types.ContainerConditionSuccess}}
	in := d.frame(d.CPU, d.MemoryMiB)
	in.ContainerDefinitions = []types.ContainerDefinition{
		{
			Name: aws.String(Helper), Image: &d.SupervisorImage, Essential: aws.Bool(false), MemoryReservation: aws.Int32(64),
			Command:                []string{"install", "--to", names.HostedBin},
			ReadonlyRootFilesystem: aws.Bool(true), LinuxParameters: closed(), LogConfiguration: d.logs(Helper),
			MountPoints: []types.MountPoint{mount("helper", names.HostedBin, false)},
		},
		{
			Name: aws.String(Supervisor), Image: &d.SupervisorImage, Essential: aws.Bool(true), MemoryReservation: aws.Int32(256),
			Command:                []string{"supervise", "--hosted", "--protocol-dir", names.HostedPrivate + "/run"},
			ReadonlyRootFilesystem: aws.Bool(true), StopTimeout: aws.Int32(StopTimeout), DependsOn: filled,
			// It reads and writes what the agent's user made.
			LinuxParameters: closed("CHOWN", "DAC_OVERRIDE", "FOWNER"), LogConfiguration: d.logs(Supervisor),
			MountPoints: []types.MountPoint{
				mount("work", names.HostedWork, false), mount("run", names.HostedSockets, false), mount("helper", names.HostedBin, true),
				mount("home", names.HostedHome, false), mount("private", names.HostedPrivate, false), mount("private-tmp", "/tmp", false),
			},
		},
		{
			// Its own limit ends a greedy agent before it takes the supervisor along.
			Name: aws.String(Agent), Image: &image, Essential: aws.Bool(true), Memory: aws.Int32(d.MemoryMiB - kept),
			EntryPoint: []string{names.HostedHelper},
			Command:    []string{"exec", "--listen", names.HostedExec, "--net", names.HostedSockets + "/net.sock", "--model", names.HostedSockets + "/model.sock", "--as", fmt.Sprint(names.HostedUID)},
			User:       aws.String("0"), WorkingDirectory: aws.String("/"),
			ReadonlyRootFilesystem: aws.Bool(true), StopTimeout: aws.Int32(StopTimeout), DependsOn: filled,
			// The helper starts the agent as another user, ends its processes, and
			// gives it the files that the supervisor sends.
			LinuxParameters: closed("SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE"),
			// For what the helper says when it cannot start; the agent's own words go to
			// the supervisor.
			LogConfiguration: d.logs(Agent),
			MountPoints: []types.MountPoint{
				mount("work", names.HostedWork, false), mount("run", names.HostedSockets, false), mount("helper", names.HostedBin, true),
				mount("home", names.HostedHome, false), mount("tmp", "/tmp", false),
			},
		},
	}
	for _, v := range []string{"work", "run", "helper", "home", "tmp", "private", "private-tmp"} {
		in.Volumes = append(in.Volumes, types.Volume{Name: &v})
	}
	return in
}

// without lists the capabilities a container has by default, but for those to keep.
func without(keep []string) []string {
	var drop []string
	for _, c := range []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
		"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	} {
		kept := false
		for _, k := range keep {
			kept = kept || k == c
		}
		if !kept {
			drop = append(drop, c)
		}
	}
	return drop
}
