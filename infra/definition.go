package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/jsii-runtime-go"
)

// The containers of a run, as the runner names them.
const (
	containerHelper     = "helper" // puts the agent's first process where any image can start it
	containerSupervisor = "supervisor"
	containerAgent      = "agent"
	containerBroker     = "broker"
)

// newDefinition writes down the definition that the runner registers for an image,
// with the product's own runtime image: every image of a project gets a copy of
// it, because a launch cannot change an image. It is here so that the tools which
// judge the stack judge it too; a test compares the two. There is no task role:
// nothing that runs in the containers has any right.
func newDefinition(p *parts, r runner) {
	filled := []any{map[string]any{"containerName": containerHelper, "condition": "SUCCESS"}}
	logTo := func(stream string) map[string]any { return r.logTo(p, stream) }
	newTaskDefinition(p, r, "Run", awsecs.CfnTaskDefinitionProps{
		Family: jsii.String(r.Family + "-run"), Cpu: jsii.String(runCPU), Memory: jsii.String(runMemory),
		Volumes: volumes("work", "run", "helper", "home", "tmp", "private", "private-tmp"),
		ContainerDefinitions: []any{
			map[string]any{
				"name": containerHelper, "image": p.set.Supervisor, "essential": false, "memoryReservation": 64,
				"command":                []string{"install", "--to", "/lazy/bin"},
				"readonlyRootFilesystem": true, "linuxParameters": closed(), "logConfiguration": logTo(containerHelper),
				"mountPoints": []any{mount("helper", "/lazy/bin", false)},
			},
			map[string]any{
				"name": containerSupervisor, "image": p.set.Supervisor, "essential": true, "memoryReservation": 256,
				"command":                []string{"supervise", "--hosted", "--protocol-dir", "/lazy/private/run"},
				"readonlyRootFilesystem": true, "stopTimeout": stopSeconds, "dependsOn": filled,
				"linuxParameters": closed("CHOWN", "DAC_OVERRIDE", "FOWNER"), "logConfiguration": logTo(containerSupervisor),
				"mountPoints": []any{
					mount("work", "/lazy/work", false), mount("run", "/lazy/run", false), mount("helper", "/lazy/bin", true),
					mount("home", "/lazy/home", false), mount("private", "/lazy/private", false), mount("private-tmp", "/tmp", false),
				},
			},
			map[string]any{
				"name": containerAgent, "image": p.set.Runtime, "essential": true, "memory": agentMemory,
				"entryPoint": []string{"/lazy/bin/lazy-agent"},
				"command":    []string{"exec", "--listen", "/lazy/run/helper/exec.sock", "--net", "/lazy/run/net.sock", "--model", "/lazy/run/model.sock", "--as", "10001"},
				"user":       "0", "workingDirectory": "/",
				"readonlyRootFilesystem": true, "stopTimeout": stopSeconds, "dependsOn": filled,
				// What its first process says when it cannot start; the agent's own words go
				// to the supervisor.
				"linuxParameters": closed("SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE"), "logConfiguration": logTo(containerAgent),
				"mountPoints": []any{
					mount("work", "/lazy/work", false), mount("run", "/lazy/run", false), mount("helper", "/lazy/bin", true),
					mount("home", "/lazy/home", false), mount("tmp", "/tmp", false),
				},
			},
		},
	})
}

// newBroker writes down the definition that the runner registers for the broker of
// an accept: one container of ours, in which nothing of a project runs.
func newBroker(p *parts, r runner) {
	newTaskDefinition(p, r, "Broker", awsecs.CfnTaskDefinitionProps{
		Family: jsii.String(r.Family + "-broker"), Cpu: jsii.String(brokerCPU), Memory: jsii.String(brokerMemory),
		Volumes: volumes("private", "private-tmp"),
		ContainerDefinitions: []any{map[string]any{
			"name": containerBroker, "image": p.set.Supervisor, "essential": true, "memoryReservation": 256,
			"command":                []string{"broker", "--hosted", "--protocol-dir", "/lazy/private/run"},
			"readonlyRootFilesystem": true, "stopTimeout": stopSeconds,
			"linuxParameters": closed(), "logConfiguration": r.logTo(p, containerBroker),
			"mountPoints": []any{mount("private", "/lazy/private", false), mount("private-tmp", "/tmp", false)},
		}},
	})
}

// newTaskDefinition adds what all definitions have in common.
func newTaskDefinition(p *parts, r runner, id string, props awsecs.CfnTaskDefinitionProps) {
	var tags []*awscdk.CfnTag
	for k, v := range p.set.tags() {
		tags = append(tags, &awscdk.CfnTag{Key: jsii.String(k), Value: jsii.String(v)})
	}
	props.NetworkMode, props.RequiresCompatibilities = jsii.String("awsvpc"), jsii.Strings("FARGATE")
	props.ExecutionRoleArn, props.Tags = r.ExecutionRole.RoleArn(), &tags
	props.EphemeralStorage = map[string]any{"sizeInGiB": runDiskGiB}
	props.RuntimePlatform = map[string]any{"cpuArchitecture": "ARM64", "operatingSystemFamily": "LINUX"}
	awsecs.NewCfnTaskDefinition(p.stack, jsii.String(id), &props)
}

func (r runner) logTo(p *parts, stream string) map[string]any {
	return map[string]any{"logDriver": "awslogs", "options": map[string]any{
		"awslogs-group": *r.Logs.LogGroupName(), "awslogs-region": *p.stack.Region(), "awslogs-stream-prefix": stream,
	}}
}

func closed(keep ...string) map[string]any {
	return map[string]any{"initProcessEnabled": false, "capabilities": map[string]any{"drop": without(keep)}}
}

func mount(volume, at string, readOnly bool) map[string]any {
	return map[string]any{"sourceVolume": volume, "containerPath": at, "readOnly": readOnly}
}

func volumes(names ...string) []any {
	var all []any
	for _, v := range names {
		all = append(all, map[string]any{"name": v})
	}
	return all
}

// without lists the capabilities that a container has by default, but for those to
// keep.
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
