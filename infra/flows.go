package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// newFlows deploys the very files that a laptop runs. They are read here and not
// by CDK, so that a test of this package sees an edit of them. Every transition
// is logged, and none with its data.
func newFlows(p *parts) (map[string]awsstepfunctions.StateMachine, error) {
	step := p.Functions[names.SurfaceStep].Live
	all := map[string]awsstepfunctions.StateMachine{}
	for _, m := range names.Machines() {
		text, err := os.ReadFile(filepath.Join(p.set.Root, "statemachines", m+".asl.json"))
		if err != nil {
			return nil, fmt.Errorf("read the definition of flow %s: %w", m, err)
		}
		id := "Flow" + title(m)
		logs := awslogs.NewLogGroup(p.stack, jsii.String(id+"Logs"), &awslogs.LogGroupProps{
			LogGroupName: jsii.String("/aws/vendedlogs/states/" + p.set.prefix() + "-" + m),
			Retention:    awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: p.set.removal(),
		})
		role := awsiam.NewRole(p.stack, jsii.String(id+"Role"), &awsiam.RoleProps{
			AssumedBy:   awsiam.NewServicePrincipal(jsii.String("states.amazonaws.com"), nil),
			Description: jsii.String("lazyplane: the " + m + " flow calls its steps"),
		})
		role.AddToPolicy(right{actions: []string{"lambda:InvokeFunction"}, resources: []string{*step.FunctionArn()}}.statement())
		all[m] = awsstepfunctions.NewStateMachine(p.stack, jsii.String(id), &awsstepfunctions.StateMachineProps{
			StateMachineName:        jsii.String(p.set.prefix() + "-" + m),
			StateMachineType:        awsstepfunctions.StateMachineType_STANDARD,
			DefinitionBody:          awsstepfunctions.DefinitionBody_FromString(jsii.String(string(text))),
			DefinitionSubstitutions: &map[string]*string{"StepFunction": step.FunctionArn()},
			Role:                    role,
			RemovalPolicy:           p.set.removal(),
			TracingEnabled:          jsii.Bool(true),
			Logs: &awsstepfunctions.LogOptions{
				Destination: logs, IncludeExecutionData: jsii.Bool(false), Level: awsstepfunctions.LogLevel_ALL,
			},
		})
		// An execution goes on by the definition it began with. Each that was ever in
		// force stays published: to read what an execution runs by, and for a way back.
		awsstepfunctions.NewCfnStateMachineVersion(p.stack, jsii.String(id+"Version"), &awsstepfunctions.CfnStateMachineVersionProps{
			StateMachineArn:        all[m].StateMachineArn(),
			StateMachineRevisionId: all[m].StateMachineRevisionId(),
			Description:            jsii.String("lazyplane " + p.set.Version),
		}).ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN, nil)
	}
	return all, nil
}
