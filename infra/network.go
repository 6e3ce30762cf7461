package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// network is where containers of agents run: public subnets, for a NAT gateway
// alone costs more than everything else, and a group that lets nothing in.
type network struct {
	VPC     awsec2.Vpc
	Group   awsec2.SecurityGroup
	Subnets []string
}

func newNetwork(p *parts) network {
	logs := awslogs.NewLogGroup(p.stack, jsii.String("FlowLogs"), &awslogs.LogGroupProps{
		Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: p.set.removal(),
	})
	vpc := awsec2.NewVpc(p.stack, jsii.String("Vpc"), &awsec2.VpcProps{
		IpAddresses: awsec2.IpAddresses_Cidr(jsii.String("10.97.0.0/16")),
		MaxAzs:      jsii.Number(2),
		NatGateways: jsii.Number(0),
		SubnetConfiguration: &[]*awsec2.SubnetConfiguration{{
			Name: jsii.String("agents"), SubnetType: awsec2.SubnetType_PUBLIC, CidrMask: jsii.Number(20),
			// A container asks for its address; nothing else that may one day lie here
			// gets one unasked.
			MapPublicIpOnLaunch: jsii.Bool(false),
		}},
		// Emptying it takes a function with rights over every group; nothing uses it.
		RestrictDefaultSecurityGroup: jsii.Bool(false),
		// What was refused, which is little, and tells of an agent that tries.
		FlowLogs: &map[string]*awsec2.FlowLogOptions{"Refused": {
			Destination: awsec2.FlowLogDestination_ToCloudWatchLogs(logs, nil), TrafficType: awsec2.FlowLogTrafficType_REJECT,
		}},
	})
	group := awsec2.NewSecurityGroup(p.stack, jsii.String("Agents"), &awsec2.SecurityGroupProps{
		Vpc: vpc, Description: jsii.String("Containers of agents: nothing in, HTTPS and names out"),
		AllowAllOutbound: jsii.Bool(false),
	})
	group.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(jsii.Number(443)), jsii.String("HTTPS"), nil)
	for _, port := range []awsec2.Port{awsec2.Port_Udp(jsii.Number(53)), awsec2.Port_Tcp(jsii.Number(53))} {
		group.AddEgressRule(awsec2.Peer_Ipv4(vpc.VpcCidrBlock()), port, jsii.String("names, from the resolver of this network"), nil)
	}
	s3 := vpc.AddGatewayEndpoint(jsii.String("S3"), &awsec2.GatewayVpcEndpointOptions{Service: awsec2.GatewayVpcEndpointAwsService_S3()})
	s3.AddToPolicy(fromAnybody([]string{"s3:GetObject", "s3:PutObject"}, *p.Bucket.BucketArn()+"/*"))
	// Layers of images come from a bucket of the registry's, which has this name in
	// every Region.
	s3.AddToPolicy(fromAnybody([]string{"s3:GetObject"}, "arn:"+*p.stack.Partition()+":s3:::prod-"+*p.stack.Region()+"-starport-layer-bucket/*"))
	table := vpc.AddGatewayEndpoint(jsii.String("Rows"), &awsec2.GatewayVpcEndpointOptions{Service: awsec2.GatewayVpcEndpointAwsService_DYNAMODB()})
	table.AddToPolicy(fromAnybody(p.rows().actions, p.rows().resources...))
	n := network{VPC: vpc, Group: group}
	for _, s := range *vpc.PublicSubnets() {
		n.Subnets = append(n.Subnets, *s.SubnetId())
	}
	return n
}

// fromAnybody limits an endpoint; who may use what lies behind it is said there.
func fromAnybody(actions []string, resources ...string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions:    jsii.Strings(actions...), Resources: jsii.Strings(resources...),
	})
}
