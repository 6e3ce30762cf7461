package main

// line is one part of a sum: an amount at a price, of which the first part may be
// free in every account.
type line struct {
	what   string
	amount float64
	unit   string
	price  float64 // of one
	free   float64 // amount that costs nothing while nobody else in the account uses it
}

func (l line) list() float64 { return l.amount * l.price }

func (l line) net() float64 { return max(0, l.amount-l.free) * l.price }

func sum(ls []line, f func(line) float64) float64 {
	total := 0.0
	for _, l := range ls {
		total += f(l)
	}
	return total
}

const (
	minutes = 60
	shards  = 16 // of the index of due rows
	kb      = 1.0 / (1 << 20)
)

// idle is a month in which nobody works. The clock goes on.
func (in input) idle() []line {
	p, a, n := in.Prices, in.Assumed, in.Stack
	sweeps := p.MonthHours * minutes
	log := sweeps * a.LogCall / (1 << 30)
	return []line{
		{"KMS, the one key", n["AWS::KMS::Key"], "keys", p.Key, 0},
		{"Secrets Manager, the forge App's key", n["AWS::SecretsManager::Secret"], "secrets", p.Secret, 0},
		{"CloudWatch alarms", n["AWS::CloudWatch::Alarm"], "alarms", p.Alarm, p.Free.Alarms},
		{"CloudWatch dashboard", n["AWS::CloudWatch::Dashboard"], "dashboards", p.Dashboard, p.Free.Dashboards},
		{"Lambda, the sweep: calls", sweeps, "calls", p.LambdaCall, p.Free.LambdaCalls},
		{"Lambda, the sweep: time", sweeps * a.CallMS["events"] / 1000 * a.MemoryGB["events"], "GB-seconds", p.LambdaGBs, p.Free.LambdaGBs},
		{"DynamoDB, the sweep looks at every shard", sweeps * shards * 0.5, "read units", p.Read, 0},
		{"DynamoDB, rows and their backups", a.TableGB, "GB", p.TableGB + p.PITRGB, 0},
		{"SQS, asking for messages and the clock's own", a.Receives + 3*sweeps, "requests", p.SQS, p.Free.SQS},
		{"KMS, the table's encryption", a.TableKMS, "requests", p.KMS, p.Free.KMS},
		{"S3, blobs", a.BlobGB, "GB", p.S3GB, 0},
		{"ECR, two images", 2 * a.ImageGB, "GB", p.ImageGB, 0},
		{"CloudWatch Logs", log, "GB", p.LogGB, p.Free.LogGB},
		{"CloudFront, the distribution", n["AWS::CloudFront::Distribution"], "distributions", 0, 0},
		{"NAT gateways", n["AWS::EC2::NatGateway"], "gateways", p.NAT, 0},
		{"Interface endpoints", n["AWS::EC2::VPCEndpoint"], "endpoints", p.EndpointTag, 0},
	}
}

// scenario is a task whose one turn takes a time, while somebody follows it for a
// part of that.
type scenario struct {
	name     string
	hours    float64 // of the agent's work
	followed float64 // part of the turn for which a command is attached
}

func scenarios() []scenario {
	return []scenario{
		{"a turn of one second, nobody follows", 1.0 / 3600, 0},
		{"ten minutes, followed", 1.0 / 6, 1},
		{"one hour, nobody follows", 1, 0},
		{"one hour, followed", 1, 1},
	}
}

// task is what one such task costs, without what the agent pays its model.
func (in input) task(s scenario) []line {
	p, a := in.Prices, in.Assumed
	one, hour := in.Counted["task"], in.Counted["hour"]
	at := func(f func(usage) float64) float64 { return f(one) + s.hours*f(hour) }
	steps := at(func(u usage) float64 { return u.Steps })
	outbox := at(func(u usage) float64 { return u.OutboxRows })
	runner := at(func(u usage) float64 { return u.RunnerCalls }) + a.Broker.RunnerCalls
	held := s.hours * s.followed * 3600
	people := a.PeopleCalls + held/a.HopSeconds
	transitions := float64(in.Turn + in.Accept)
	calls := people + runner + steps + outbox + a.Moves // each change of a status is told on its own at most
	gbs := people*a.CallMS["rpc"]/1000*a.MemoryGB["rpc"] + held*a.MemoryGB["rpc"] +
		runner*a.CallMS["runner"]/1000*a.MemoryGB["runner"] + steps*a.CallMS["step"]/1000*a.MemoryGB["step"] +
		outbox*a.CallMS["events"]/1000*a.MemoryGB["events"] + a.Moves*a.CallMS["publish"]/1000*a.MemoryGB["publish"]
	run := s.hours + (a.StartSeconds+a.EndSeconds)/3600
	merge := in.mergeHours()
	puts := a.CheckpointPuts*(1+s.hours*a.Checkpoints) + a.Broker.Puts
	web := people + runner
	return []line{
		{"Fargate, processor", run * a.VCPU, "vCPU hours", p.VCPUHour, 0},
		{"Fargate, memory", run * a.RunGB, "GB hours", p.GBHour, 0},
		{"Fargate, the accept's broker: processor", merge * a.Broker.VCPU, "vCPU hours", p.VCPUHour, 0},
		{"Fargate, the accept's broker: memory", merge * a.Broker.GB, "GB hours", p.GBHour, 0},
		{"Fargate, disk beyond what is free", (run + merge) * max(0, a.DiskGB-p.DiskFree), "GB hours", p.DiskHour, 0},
		{"Public address", run + merge, "hours", p.IPHour, 0},
		{"DynamoDB, writes", at(func(u usage) float64 { return u.WriteUnits }) + a.Broker.WriteUnits, "units", p.Write, 0},
		{"DynamoDB, reads", at(func(u usage) float64 { return u.ReadUnits }) + held*a.HeldReads, "units", p.Read, 0},
		{"Step Functions", transitions, "transitions", p.Transition, 0},
		{"Lambda, calls", calls, "calls", p.LambdaCall, 0},
		{"Lambda, time", gbs, "GB-seconds", p.LambdaGBs, 0},
		{"API Gateway", web, "requests", p.API, 0},
		{"CloudFront, requests and its function", web, "requests", p.Front + p.FrontCode, 0},
		{"CloudFront, bytes", web * a.AnswerKB * kb, "GB", p.FrontGB, 0},
		{"S3, checkpoints and bundles", puts, "puts", p.S3Put, 0},
		{"KMS, unwrapping data keys", steps, "requests", p.KMS, 0},
		{"EventBridge, what others are told", a.Moves, "events", p.Event, 0},
		{"X-Ray", 2, "traces", p.Trace, 0},
		{"CloudWatch Logs", (calls*a.LogCall + transitions*a.LogTransition) / (1 << 30), "GB", p.LogGB, 0},
	}
}

// mergeHours is how long the container of an accept's broker is paid for: a minute
// is the least.
func (in input) mergeHours() float64 {
	a := in.Assumed
	return max(60, a.StartSeconds+a.Broker.MergeSeconds+a.EndSeconds) / 3600
}

// merge is what that container costs.
func (in input) merge() float64 {
	p, a := in.Prices, in.Assumed
	return in.mergeHours() * (a.Broker.VCPU*p.VCPUHour + a.Broker.GB*p.GBHour + max(0, a.DiskGB-p.DiskFree)*p.DiskHour + p.IPHour)
}
