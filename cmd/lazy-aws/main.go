// Command lazy-aws looks at an AWS account for `lazy doctor --aws` and prints what
// it found as JSON. It is a program of its own, so that lazy does not carry the
// cloud's libraries along.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/lazyplane/lazyplane/pkg/preflight"
)

func main() {
	region := flag.String("region", "", "Region that is to be deployed to")
	stage := flag.String("stage", "prod", "stage of the stack")
	flag.Parse()
	if err := run(context.Background(), *region, *stage); err != nil {
		fmt.Fprintln(os.Stderr, "lazy-aws:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, region, stage string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var opts []func(*config.LoadOptions) error
	if region != "" {
		opts = append(opts, config.WithRegion(region))
	}
	c, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return err
	}
	found := preflight.Look(ctx, preflight.Config{
		Credentials: c.Credentials, Region: c.Region, Stage: stage, Endpoint: os.Getenv("AWS_ENDPOINT_URL"),
		HTTP: &http.Client{Timeout: 20 * time.Second}, Now: time.Now,
	})
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"checks": found})
}
