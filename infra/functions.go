package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// alias is the name that callers know a function's current version by.
const alias = "live"

// shape is what makes a function differ from the others.
type shape struct {
	Timeout time.Duration
	Memory  int
	// Reserved is the concurrency that is kept for it and that it cannot exceed.
	// Those that hold waiting people have none, so that they share what is left and
	// cannot take it from the ones that do the work (DESIGN 7).
	Reserved int
	Does     string
}

func shapes() map[string]shape {
	return map[string]shape{
		names.SurfaceRPC:    {names.TimeoutRPC, 512, 0, "commands of the CLI and of operators"},
		names.SurfaceMCP:    {names.TimeoutMCP, 512, 0, "tools of agents"},
		names.SurfaceRunner: {names.TimeoutRunner, 512, 100, "what supervisors say"},
		names.SurfaceAuth:   {names.TimeoutAuth, 512, 0, "signing people and their clients in"},
		names.SurfaceStep:   {names.TimeoutStep, 1024, 50, "steps of the flows"},
		// It takes pushes in, which is git's work on a whole repository.
		names.SurfaceEvents: {names.TimeoutEvents, 1024, 20, "endings, the outbox and rows that are due"},
		// As many as read the stream at once.
		names.SurfacePublish: {names.TimeoutPublish, 256, 10, "what happened, for others"},
	}
}

// function is a deployed surface. Everybody calls Live.
type function struct {
	Function awslambda.Function
	Live     awslambda.Alias
	Logs     awslogs.LogGroup
	Role     awsiam.Role
}

// newFunctions makes a function of each surface from its binary.
func newFunctions(p *parts, surfaces ...string) map[string]function {
	all := map[string]function{}
	tools := gitLayer(p)
	for _, s := range surfaces {
		all[s] = newFunction(p, s, shapes()[s], tools)
	}
	return all
}

// gitLayer is the git program, which the functions' runtime does not have. Projects
// whose repository lies with the control plane need it.
func gitLayer(p *parts) *[]awslambda.ILayerVersion {
	if p.set.Git == "" || p.tools != nil {
		return p.tools
	}
	p.tools = &[]awslambda.ILayerVersion{awslambda.NewLayerVersion(p.stack, jsii.String("Git"), &awslambda.LayerVersionProps{
		LayerVersionName: jsii.String(p.set.prefix() + "-git"), Code: awslambda.Code_FromAsset(jsii.String(p.set.Git), nil), Description: jsii.String("lazyplane: git"),
		CompatibleArchitectures: &[]awslambda.Architecture{awslambda.Architecture_ARM_64()},
		// A version of a function that is kept for a way back needs its layer.
		RemovalPolicy: awscdk.RemovalPolicy_RETAIN,
	})}
	return p.tools
}

// diskMiB is room for copies of repositories: what is fetched, opened and imported.
const diskMiB = 4096

func newFunction(p *parts, surface string, sh shape, tools *[]awslambda.ILayerVersion) function {
	id := title(surface) + "Function"
	logs := awslogs.NewLogGroup(p.stack, jsii.String(id+"Logs"), &awslogs.LogGroupProps{
		Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: p.set.removal(),
	})
	role := awsiam.NewRole(p.stack, jsii.String(id+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("lazyplane " + surface + ": " + sh.Does),
	})
	for _, st := range rights(p, surface, *logs.LogGroupArn()) {
		role.AddToPolicy(st)
	}
	props := &awslambda.FunctionProps{
		Description:   jsii.String("lazyplane " + surface + ": " + sh.Does),
		Runtime:       awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:  awslambda.Architecture_ARM_64(),
		Handler:       jsii.String("bootstrap"),
		Code:          awslambda.Code_FromAsset(jsii.String(filepath.Join(p.set.Assets, surface)), nil),
		Timeout:       awscdk.Duration_Seconds(jsii.Number(sh.Timeout.Seconds())),
		MemorySize:    jsii.Number(sh.Memory),
		Role:          role,
		LogGroup:      logs,
		LoggingFormat: awslambda.LoggingFormat_JSON,
		Environment:   environ(p, surface),
		Layers:        tools,
		// A copy of a repository is only quick, never true: it goes with the function.
		EphemeralStorageSize: awscdk.Size_Mebibytes(jsii.Number(diskMiB)),
		// The version before stays, for a way back and for executions that are in it.
		CurrentVersionOptions: &awslambda.VersionOptions{RemovalPolicy: awscdk.RemovalPolicy_RETAIN},
	}
	if p.set.Reserve && sh.Reserved > 0 {
		props.ReservedConcurrentExecutions = jsii.Number(sh.Reserved)
	}
	f := awslambda.NewFunction(p.stack, jsii.String(id), props)
	live := awslambda.NewAlias(p.stack, jsii.String(id+"Live"), &awslambda.AliasProps{
		AliasName: jsii.String(alias), Version: f.CurrentVersion(),
	})
	return function{f, live, logs, role}
}

// environ is what a function is told. It holds names and addresses only.
func environ(p *parts, surface string) *map[string]*string {
	env := map[string]*string{
		names.EnvStage:         jsii.String(p.set.Stage),
		names.EnvVersion:       jsii.String(p.set.Version),
		names.EnvTable:         p.Table.TableName(),
		names.EnvBucket:        p.Bucket.BucketName(),
		names.EnvKey:           p.Key.KeyArn(),
		names.EnvMachineTurn:   jsii.String(p.machineARN(names.MachineTurn)),
		names.EnvMachineRecov:  jsii.String(p.machineARN(names.MachineRecovery)),
		names.EnvMachineAccept: jsii.String(p.machineARN(names.MachineAccept)),
		names.EnvForgeSecret:   p.Secret.SecretArn(),
	}
	switch surface {
	case names.SurfaceStep, names.SurfaceEvents:
		env[names.EnvURL] = jsii.String(p.CDN.URL)
		env[names.EnvParked] = p.Queues.Dead.QueueUrl()
		env[names.EnvCluster] = jsii.String(p.Runner.ClusterName)
		env[names.EnvTaskFamily] = jsii.String(p.Runner.Family)
		env[names.EnvSupervisor] = jsii.String(p.set.Supervisor)
		env[names.EnvRuntime] = jsii.String(p.set.Runtime)
		env[names.EnvExecutionRole] = p.Runner.ExecutionRole.RoleArn()
		env[names.EnvRunLogs] = p.Runner.Logs.LogGroupName()
		env[names.EnvRunCPU] = jsii.String(runCPU)
		env[names.EnvRunMemory] = jsii.String(runMemory)
		env[names.EnvRunDisk] = jsii.String(strconv.Itoa(runDiskGiB))
		env[names.EnvSubnets] = jsii.String(strings.Join(p.Network.Subnets, ","))
		env[names.EnvSecurityGroup] = p.Network.Group.SecurityGroupId()
	case names.SurfacePublish:
		env[names.EnvBus] = p.Bus.EventBusName()
		env[names.EnvParked] = p.Queues.Unpublished.QueueUrl()
	default:
		env[names.EnvEdge] = jsii.String(p.edge())
		// Behind the API the host is the one that was asked for; see cdn.go.
		if p.set.Domain != "" {
			env[names.EnvURL] = jsii.String("https://" + p.set.Domain)
		}
	}
	if p.set.OTLP != "" {
		env[names.EnvOTLP] = jsii.String(p.set.OTLP)
	}
	return &env
}
