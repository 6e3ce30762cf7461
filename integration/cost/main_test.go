package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func module(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestThePageIsWhatTheFiguresSay(t *testing.T) {
	if os.Getenv("UPDATE") != "" {
		if err := run(module(t), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(module(t), true); err != nil {
		t.Error(err)
	}
}

func TestAnIdleMonthCostsNoMoreThanFiveDollars(t *testing.T) {
	in, err := read(module(t))
	if err != nil {
		t.Fatal(err)
	}
	if net := sum(in.idle(), line.net); net > bar || net < 1 {
		t.Errorf("an idle month costs %.2f dollars", net)
	}
	for _, want := range []string{"AWS::KMS::Key", "AWS::SecretsManager::Secret", "AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::CloudFront::Distribution"} {
		if in.Stack[want] == 0 {
			t.Errorf("the stack has no %s", want)
		}
	}
	in.Stack["AWS::EC2::NatGateway"] = 1
	if _, err := render(in); err == nil || !strings.Contains(err.Error(), "more than 5") {
		t.Errorf("a NAT gateway goes unseen: %v", err)
	}
}

func TestTheSumsAreRight(t *testing.T) {
	l := line{what: "x", amount: 12, price: 0.5, free: 10}
	if l.list() != 6 || l.net() != 1 {
		t.Errorf("list %v, net %v", l.list(), l.net())
	}
	in := input{Counted: map[string]usage{"task": {WriteUnits: 100}, "hour": {WriteUnits: 60}}}
	in.Prices.Write = 2
	in.Assumed.HopSeconds = 25
	for _, l := range in.task(scenario{"", 0.5, 0}) {
		if l.what == "DynamoDB, writes" && l.list() != 260 {
			t.Errorf("half an hour writes for %v", l.list())
		}
	}
}

func TestATurnWithoutFailuresHasEightTransitionsAtMost(t *testing.T) {
	in, err := read(module(t))
	if err != nil {
		t.Fatal(err)
	}
	if in.Turn > 8 || in.Turn < 5 {
		t.Errorf("%d transitions", in.Turn)
	}
	loop := filepath.Join(t.TempDir(), "loop.asl.json")
	if err := os.WriteFile(loop, []byte(`{"StartAt":"A","States":{"A":{"Next":"A"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := transitions(loop); err == nil {
		t.Error("a way without an end was counted")
	}
}
