package main

import (
	"bytes"
	"fmt"
	"strconv"
	"text/template"
)

// bar is the most that an idle month may cost (DESIGN 11).
const bar = 5.0

type row struct{ What, Amount, Unit, List, Net string }

type sheet struct {
	Name  string
	Rows  []row
	Total string
	Net   string
}

func money(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.00001:
		return "< 0.00001"
	case f < 0.01:
		return strconv.FormatFloat(f, 'f', 5, 64)
	}
	return strconv.FormatFloat(f, 'f', 3, 64)
}

func amount(f float64) string {
	if f >= 100 || f == float64(int(f)) {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

func table(name string, ls []line) sheet {
	s := sheet{Name: name, Total: money(sum(ls, line.list)), Net: money(sum(ls, line.net))}
	for _, l := range ls {
		s.Rows = append(s.Rows, row{l.what, amount(l.amount), l.unit, money(l.list()), money(l.net())})
	}
	return s
}

func render(in input) ([]byte, error) {
	idle := in.idle()
	without := 0.0
	for _, l := range idle {
		if l.what != "CloudWatch dashboard" {
			without += l.list()
		}
	}
	net := sum(idle, line.net)
	if net > bar {
		return nil, fmt.Errorf("an idle month costs %.2f dollars, more than %.0f", net, bar)
	}
	if without > bar {
		return nil, fmt.Errorf("an idle month without the dashboard costs %.2f dollars at list prices, more than %.0f", without, bar)
	}
	view := map[string]any{
		"In": in, "Idle": table("idle", idle), "Bar": bar, "Without": money(without),
		"Transitions": in.Turn + in.Accept, "Accept": money(in.merge()),
	}
	var tasks []sheet
	for _, s := range scenarios() {
		tasks = append(tasks, table(s.name, in.task(s)))
	}
	view["Tasks"], view["Whole"] = tasks, tasks[len(tasks)-2]
	t, err := template.New("cost").Parse(page)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, view); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

const page = `# What it costs

Written by ` + "`go run ./integration/cost`" + `; do not edit. {{.In.Prices.Source}} Prices: {{.In.Prices.Region}}, {{.In.Prices.Date}}, in US dollars
(` + "`integration/cost/prices.json`" + `). What a model costs is not here: agents pay their provider directly.

## A month in which nobody works

| What | Amount | | At list price | After what is free in every account |
|---|---:|---|---:|---:|
{{range .Idle.Rows}}| {{.What}} | {{.Amount}} | {{.Unit}} | {{.List}} | {{.Net}} |
{{end}}| **all** | | | **{{.Idle.Total}}** | **{{.Idle.Net}}** |

The last column holds while nothing else in the account uses the allowances that AWS grants every account for ever (ten alarms, three
dashboards, a million calls of Lambda and SQS a month). Where others use them up, ` + "`-c dashboard=false`" + ` leaves {{.Without}} dollars a month.
The bar is {{.Bar}} dollars. There is no NAT gateway and no interface endpoint; gateway endpoints, rules and the budget are free.

## One task

Created, one turn, accepted. A followed turn has a ` + "`lazy`" + ` command attached for its whole length, which keeps one function busy.

| One task | Dollars |
|---|---:|
{{range .Tasks}}| {{.Name}} | {{.Total}} |
{{end}}
An accept starts a container of its own that merges (` + "`lazy-agent broker`" + `, on demand, not on Spot): {{.Accept}} dollars of each of these.
It is paid for from the pull of its image on, and for a minute at least.

{{.Whole.Name}}, in parts:

| What | Amount | | Dollars |
|---|---:|---|---:|
{{range .Whole.Rows}}| {{.What}} | {{.Amount}} | {{.Unit}} | {{.List}} |
{{end}}| **all** | | | **{{.Whole.Total}}** |

## Where the amounts come from

| Amount | From |
|---|---|
| {{.In.Counted.task.WriteUnits}} write and {{.In.Counted.task.ReadUnits}} read units, {{.In.Counted.task.Steps}} steps, {{.In.Counted.task.OutboxRows}} outbox rows a task; {{.In.Counted.hour.WriteUnits}} and {{.In.Counted.hour.ReadUnits}} units and {{.In.Counted.hour.RunnerCalls}} calls of the supervisor a running hour | counted by a test over the real use cases (` + "`pkg/wire/local`, `counted.json`" + `), which fails when they grow |
| {{.Transitions}} transitions: {{.In.Turn}} of a turn, {{.In.Accept}} of an accept | counted in the definitions, along the way without a failure |
| alarms, dashboards, keys, secrets, gateways, endpoints | counted in the synthesized stack by a test (` + "`infra`, `stack.json`" + `) |
| what an accept's broker asks of the services, seconds of its merge | assumed (` + "`assumed.json`" + `); the counts are those that a test of ` + "`pkg/wire/depot`" + ` prints |
| milliseconds of a call, bytes of a log line, seconds until a container starts, gigabytes kept | assumed (` + "`assumed.json`" + `): only a deployment can tell them; put its figures there |

The sweep looks at 16 shards every minute, whoever works. A custom metric is paid for by the hours in which it has a value; the
product's have one only when something is wrong.
`
