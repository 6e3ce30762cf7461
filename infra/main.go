// Command infra is the CDK app that puts the control plane into an AWS account:
// one stack, one file for each construct. It reads names from pkg/names and the
// state machines' definitions from their files, and nothing else of the product.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

func main() {
	defer jsii.Close()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func run() error {
	app := awscdk.NewApp(nil)
	set, err := load(app.Node())
	if err != nil {
		return err
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	set.Root, set.Assets = root, filepath.Join(root, "infra", "dist")
	set.Account, set.Region = os.Getenv("CDK_DEFAULT_ACCOUNT"), os.Getenv("CDK_DEFAULT_REGION")
	if _, err := newStack(app, set); err != nil {
		return err
	}
	judge(app)
	app.Synth(nil)
	return nil
}

// judge has cdk-nag look at everything. What it finds and nag.go does not excuse
// makes the synthesis fail.
func judge(app awscdk.App) {
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Reports: jsii.Bool(false)}), nil)
}

// findRoot is the folder of the module, from this one upwards.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find the module: no go.mod above the working directory")
		}
		dir = up
	}
}
