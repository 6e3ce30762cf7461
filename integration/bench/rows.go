package main

// row is one line of the table: a promise about speed or size, and where its
// figure comes from.
type row struct {
	what   string
	bar    float64 // 0 for a figure that is printed and held to nothing
	unit   string  // of the bar and of the figure
	atMost bool    // the figure should be at most, not at least, the bar
	exact  bool    // the figure should be the bar
	pkg    string  // with the benchmark below; empty for a whole process
	bench  string
	metric string   // as the benchmark reports it, for example "ms/up"
	argv   []string // a whole process, timed from start to exit
}

// rows are the local figures to reach. A benchmark that reports its metric
// under the name given here fills its line.
func rows() []row {
	const (
		local  = "./integration/e2e"
		engine = "./pkg/engine/local"
		hosted = "./integration/emulated"
	)
	return []row{
		{what: "lazy up, start to first answer", bar: 300, unit: "ms", atMost: true, pkg: local, bench: "BenchmarkUp", metric: "ms/up"},
		{what: "lazy up, resident and idle", bar: 60, unit: "MB", atMost: true, pkg: local, bench: "BenchmarkUp", metric: "MB-idle"},
		{what: "durable flow of five steps, median", bar: 1.5, unit: "ms", atMost: true, pkg: engine, bench: "BenchmarkFlowFiveSteps", metric: "ms-median"},
		{what: "durable flows, 32 wide", bar: 830, unit: "flows/s", pkg: engine, bench: "BenchmarkFlow32Wide", metric: "flows/s"},
		{what: "start to agent running, sandboxed", bar: 40, unit: "ms", atMost: true, pkg: local, bench: "BenchmarkStartToAgent", metric: "ms/start"},
		{what: "control plane's share of a turn", bar: 200, unit: "ms", atMost: true, pkg: local, bench: "BenchmarkWholeTurn", metric: "ms-overhead/turn"},
		{what: "MCP call with one store read, over bare SDK", bar: 1.3, unit: "x", atMost: true, pkg: "./pkg/mcpserver", bench: "BenchmarkCall", metric: "x-bare"},
		{what: "model gateway, added to each call, median", unit: "µs", atMost: true, pkg: "./pkg/gateway", bench: "BenchmarkOverheadOfACall", metric: "us/call"},
		{what: "model gateway, memory per open stream", unit: "KB", atMost: true, pkg: "./pkg/gateway", bench: "BenchmarkOpenStreams", metric: "KB/stream"},
		{what: "webhook of 20 KB, verified and stored", bar: 3000, unit: "hooks/s", pkg: "./pkg/webhook", bench: "BenchmarkDelivery32Wide", metric: "hooks/s"},
		{what: "webhook of 20 KB, p99 at 32 wide", bar: 40, unit: "ms", atMost: true, pkg: "./pkg/webhook", bench: "BenchmarkDelivery32Wide", metric: "ms-p99"},
		{what: "lazy version, whole process", bar: 8, unit: "ms", atMost: true, argv: []string{"version"}},
		{what: "lazy list of 10,000 tasks, whole process", bar: 40, unit: "ms", atMost: true, pkg: local, bench: "BenchmarkListOf10000", metric: "ms/list"},
		{what: "Lambda binary, the largest", bar: 20, unit: "MB", atMost: true, pkg: hosted, bench: "BenchmarkFunctions", metric: "MB-largest"},
		{what: "Lambda init, the longest median", bar: 40, unit: "ms", atMost: true, pkg: hosted, bench: "BenchmarkFunctions", metric: "ms-init"},
		{what: "64 starts of one task, winners", bar: 1, unit: "winners", exact: true, pkg: local, bench: "BenchmarkRacingStarts", metric: "winners"},
		{what: "64 starts of one task, told who won", bar: 63, unit: "losers", exact: true, pkg: local, bench: "BenchmarkRacingStarts", metric: "losers"},
	}
}
