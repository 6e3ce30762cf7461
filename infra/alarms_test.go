package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/names"
)

var seeSection = regexp.MustCompile(`docs/operations\.md, ([a-z0-9 ]+)\.`)

func TestEveryAlarmTellsSomebodyAndSaysWhereToLook(t *testing.T) {
	got := deployed(t)
	doc, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	all := got.of("AWS::CloudWatch::Alarm")
	for _, a := range all {
		says := text(a.at("AlarmDescription"))
		if len(texts(a.at("AlarmActions"))) == 0 {
			t.Errorf("%s tells nobody", a.ID)
		}
		m := seeSection.FindStringSubmatch(says)
		if m == nil {
			t.Errorf("%s does not say where to look: %s", a.ID, says)
			continue
		}
		if !strings.Contains(strings.ToLower(string(doc)), "| "+m[1]+" |") {
			t.Errorf("docs/operations.md has no row for %q", m[1])
		}
		seen[text(a.at("MetricName"))] = true
	}
	for _, want := range []string{
		"ApproximateNumberOfMessagesVisible", names.MetricSweepRepair, names.MetricBreaker, names.MetricLaunch, names.MetricNonce, "5XXError", "WriteThrottleEvents", "Throttles",
	} {
		if !seen[want] {
			t.Errorf("nothing watches %s", want)
		}
	}
	// Ten are free in every account.
	if len(all) > 10 {
		t.Errorf("%d alarms", len(all))
	}
}

// What is watched or shown is what somebody really counts: the product's own
// metrics are those of pkg/names, each of which a test of pkg/wire/local has
// counted; the services' are known by name and dimension.
func TestEveryMetricThatIsWatchedIsOneThatIsCounted(t *testing.T) {
	served := map[string]string{
		"AWS/SQS ApproximateNumberOfMessagesVisible": "QueueName",
		"AWS/ApiGateway Count":                       "ApiName Stage",
		"AWS/ApiGateway 4XXError":                    "ApiName Stage",
		"AWS/ApiGateway 5XXError":                    "ApiName Stage",
		"AWS/Lambda Duration":                        "FunctionName",
		"AWS/Lambda Errors":                          "FunctionName",
		"AWS/Lambda Invocations":                     "FunctionName",
		"AWS/Lambda Throttles":                       "FunctionName",
		"AWS/States ExecutionsStarted":               "StateMachineArn",
		"AWS/States ExecutionsFailed":                "StateMachineArn",
		"AWS/DynamoDB ConsumedReadCapacityUnits":     "TableName",
		"AWS/DynamoDB ConsumedWriteCapacityUnits":    "TableName",
		"AWS/DynamoDB ReadThrottleEvents":            "TableName",
		"AWS/DynamoDB WriteThrottleEvents":           "TableName",
	}
	for _, name := range names.Metrics() {
		served[names.MetricNamespace+" "+name] = "stage"
	}
	got := deployed(t)
	watched := map[string]bool{}
	look := func(where, namespace, name string, dimensions []string) {
		slices.Sort(dimensions)
		if want, ok := served[namespace+" "+name]; !ok || want != strings.Join(dimensions, " ") {
			t.Errorf("%s is about %s %s by %q, which nobody counts", where, namespace, name, dimensions)
		}
		watched[where+" "+namespace+" "+name] = true
	}
	for _, a := range got.of("AWS::CloudWatch::Alarm") {
		var by []string
		for _, d := range a.at("Dimensions").([]any) {
			by = append(by, text(at(d, "Name")))
		}
		look("an alarm", text(a.at("Namespace")), text(a.at("MetricName")), by)
	}
	var board struct {
		Widgets []struct {
			Properties struct{ Metrics [][]any }
		}
	}
	// References are written as <Name>, which is text as well.
	if err := json.Unmarshal([]byte(text(got.only(t, "AWS::CloudWatch::Dashboard").at("DashboardBody"))), &board); err != nil {
		t.Fatal(err)
	}
	for _, w := range board.Widgets {
		for _, m := range w.Properties.Metrics {
			var words []string
			for _, word := range m {
				if s, ok := word.(string); ok {
					words = append(words, s)
				}
			}
			var by []string
			for i := 2; i+1 < len(words); i += 2 {
				by = append(by, words[i])
			}
			look("the dashboard", words[0], words[1], by)
		}
	}
	for _, name := range names.Metrics() {
		for _, where := range []string{"an alarm", "the dashboard"} {
			if !watched[where+" "+names.MetricNamespace+" "+name] {
				t.Errorf("%s is not about %s", where, name)
			}
		}
	}
}

func TestTheBudgetIsToldOnTheTopicThatPeopleRead(t *testing.T) {
	got := deployed(t)
	topic := "<" + got.only(t, "AWS::SNS::Topic").ID + ">"
	b := got.only(t, "AWS::Budgets::Budget")
	for i := range 2 {
		if to := text(b.at("NotificationsWithSubscribers", i, "Subscribers", 0, "Address")); to != topic {
			t.Errorf("notice %d goes to %s", i, to)
		}
	}
	if b.at("Budget", "BudgetLimit", "Amount") != float64(25) {
		t.Errorf("the limit is %v", b.at("Budget", "BudgetLimit"))
	}
	if f := text(b.at("Budget", "CostFilters", "TagKeyValue", 0)); f != "user:lazyplane:stage$prod" {
		t.Errorf("it looks at %s", f)
	}
	if to := got.only(t, "AWS::SNS::Subscription").at("Endpoint"); to != "ops@example.com" {
		t.Errorf("alarms go to %v", to)
	}
	metrics := strings.Count(text(got.only(t, "AWS::CloudWatch::Dashboard").at("DashboardBody")), `"stat"`)
	if metrics == 0 || metrics > 50 {
		t.Errorf("the dashboard has %d metrics; up to 50 are free", metrics)
	}
	if len(deployedOtherwise(t).of("AWS::CloudWatch::Dashboard")) != 0 {
		t.Error("there is a dashboard that nobody wanted")
	}
}

// What of the stack costs money without being used is counted here and priced by
// integration/cost.
func TestWhatIsPaidForWhenNobodyWorksIsCounted(t *testing.T) {
	got := deployed(t)
	count := map[string]int{}
	for _, kind := range []string{
		"AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard", "AWS::KMS::Key", "AWS::SecretsManager::Secret", "AWS::EC2::NatGateway",
		"AWS::EC2::VPCEndpoint", "AWS::Lambda::EventSourceMapping", "AWS::Events::Rule", "AWS::CloudFront::Distribution", "AWS::Lambda::Function",
	} {
		n := 0
		for _, r := range got.of(kind) {
			if kind == "AWS::EC2::VPCEndpoint" && text(r.at("VpcEndpointType")) == "Gateway" {
				continue // free
			}
			n++
		}
		count[kind] = n
	}
	golden(t, filepath.Join("..", "integration", "cost", "stack.json"), count)
}
