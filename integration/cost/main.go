// Command cost works out what the deployed stack costs a month when nobody works,
// and what one task costs, from what was counted and from list prices. It writes
// docs/cost.md; with -check it says whether that page is what it would write.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "folder of the module")
	check := flag.Bool("check", false, "write nothing, and fail when the page is another")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	in, err := read(root)
	if err != nil {
		return err
	}
	page, err := render(in)
	if err != nil {
		return err
	}
	file := filepath.Join(root, "docs", "cost.md")
	if !check {
		return os.WriteFile(file, page, 0o644)
	}
	have, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, page) {
		return fmt.Errorf("docs/cost.md is not what the figures say; run: go run ./integration/cost")
	}
	return nil
}

// prices are dollars for one of what the name says.
type prices struct {
	Date        string
	Region      string
	Source      string
	MonthHours  float64 `json:"month_hours"`
	LambdaCall  float64 `json:"lambda_request"`
	LambdaGBs   float64 `json:"lambda_gb_second_arm"`
	Write       float64 `json:"dynamodb_write_unit"`
	Read        float64 `json:"dynamodb_read_unit"`
	TableGB     float64 `json:"dynamodb_gb_month"`
	PITRGB      float64 `json:"dynamodb_pitr_gb_month"`
	Transition  float64 `json:"states_transition"`
	VCPUHour    float64 `json:"fargate_vcpu_hour_arm"`
	GBHour      float64 `json:"fargate_gb_hour_arm"`
	DiskHour    float64 `json:"fargate_storage_gb_hour"`
	DiskFree    float64 `json:"fargate_storage_free_gb"`
	IPHour      float64 `json:"public_ipv4_hour"`
	API         float64 `json:"api_rest_request"`
	Front       float64 `json:"cloudfront_https_request"`
	FrontGB     float64 `json:"cloudfront_gb"`
	FrontCode   float64 `json:"cloudfront_function_request"`
	SQS         float64 `json:"sqs_request"`
	S3Put       float64 `json:"s3_put_request"`
	S3Get       float64 `json:"s3_get_request"`
	S3GB        float64 `json:"s3_gb_month"`
	LogGB       float64 `json:"logs_gb"`
	Key         float64 `json:"kms_key_month"`
	KMS         float64 `json:"kms_request"`
	Event       float64 `json:"event"`
	Secret      float64 `json:"secret_month"`
	Alarm       float64 `json:"alarm_month"`
	Dashboard   float64 `json:"dashboard_month"`
	Metric      float64 `json:"metric_month"`
	Trace       float64 `json:"xray_trace"`
	ImageGB     float64 `json:"ecr_gb_month"`
	NAT         float64 `json:"nat_gateway_month"`
	EndpointTag float64 `json:"interface_endpoint_month"`
	Free        struct {
		LambdaCalls float64 `json:"lambda_requests"`
		LambdaGBs   float64 `json:"lambda_gb_seconds"`
		SQS         float64 `json:"sqs_requests"`
		KMS         float64 `json:"kms_requests"`
		Alarms      float64 `json:"alarms"`
		Dashboards  float64 `json:"dashboards"`
		Metrics     float64 `json:"metrics"`
		LogGB       float64 `json:"logs_gb"`
		Transitions float64 `json:"states_transitions"`
		Front       float64 `json:"cloudfront_requests"`
	} `json:"free"`
}

// assumed is what only a deployment can tell.
type assumed struct {
	Why            string
	MemoryGB       map[string]float64 `json:"memory_gb"`
	CallMS         map[string]float64 `json:"call_ms"`
	LogCall        float64            `json:"log_bytes_per_call"`
	LogTransition  float64            `json:"log_bytes_per_transition"`
	StartSeconds   float64            `json:"start_seconds"`
	EndSeconds     float64            `json:"end_seconds"`
	VCPU           float64            `json:"vcpu"`
	RunGB          float64            `json:"memory_run_gb"`
	DiskGB         float64            `json:"disk_gb"`
	ImageGB        float64            `json:"image_gb"`
	TableGB        float64            `json:"table_gb"`
	BlobGB         float64            `json:"blob_gb"`
	Checkpoints    float64            `json:"checkpoints_per_hour"`
	CheckpointPuts float64            `json:"checkpoint_puts"`
	PeopleCalls    float64            `json:"people_calls_per_task"`
	HopSeconds     float64            `json:"hop_seconds"`
	HeldReads      float64            `json:"reads_per_held_second"`
	Receives       float64            `json:"receives_per_month_and_queue"`
	TableKMS       float64            `json:"stream_kms_calls_per_month"`
	AnswerKB       float64            `json:"answer_kb"`
	Moves          float64            `json:"moves_per_task"`
	Broker         broker             `json:"broker"`
}

// broker is the container that merges for one accept.
type broker struct {
	MergeSeconds float64 `json:"merge_seconds"`
	VCPU         float64 `json:"vcpu"`
	GB           float64 `json:"memory_gb"`
	RunnerCalls  float64 `json:"runner_calls"`
	WriteUnits   float64 `json:"write_units"`
	Puts         float64 `json:"puts"`
}

// usage is what a task, or an hour of a turn, asks of the services.
type usage struct {
	WriteUnits  float64 `json:"write_units"`
	ReadUnits   float64 `json:"read_units"`
	Steps       float64 `json:"steps"`
	OutboxRows  float64 `json:"outbox_rows"`
	RunnerCalls float64 `json:"runner_calls"`
}

type input struct {
	Prices  prices
	Assumed assumed
	Counted map[string]usage   // "task" and "hour", by a test of pkg/wire/local
	Stack   map[string]float64 // how many of each resource, by a test of infra
	Turn    int                // transitions of a turn without failures
	Accept  int
}

func read(root string) (input, error) {
	var in input
	for name, to := range map[string]any{"prices": &in.Prices, "assumed": &in.Assumed, "counted": &in.Counted, "stack": &in.Stack} {
		raw, err := os.ReadFile(filepath.Join(root, "integration", "cost", name+".json"))
		if err != nil {
			return input{}, err
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(to); err != nil {
			return input{}, fmt.Errorf("read %s.json: %w", name, err)
		}
	}
	for machine, to := range map[string]*int{"turn": &in.Turn, "accept": &in.Accept} {
		n, err := transitions(filepath.Join(root, "statemachines", machine+".asl.json"))
		if err != nil {
			return input{}, err
		}
		*to = n
	}
	return in, nil
}

// transitions counts those of the way without a failure: one for each state that
// is entered, and one for the end.
func transitions(file string) (int, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var m struct {
		StartAt string
		States  map[string]struct{ Next, Default string }
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	n := 1
	for at := m.StartAt; at != ""; n++ {
		s, ok := m.States[at]
		if !ok || n > len(m.States)+1 {
			return 0, fmt.Errorf("%s: the way from %s does not end", file, m.StartAt)
		}
		if at = s.Next; at == "" {
			at = s.Default
		}
	}
	return n, nil
}
