// Command build makes the functions' binaries for AWS Lambda, one folder for each
// surface below infra/dist, and prints how large they are. The same source gives
// the same bytes on every machine, so that a deployment changes only what was
// changed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// largest is the size that a binary may not exceed, in bytes (DESIGN 11).
const largest = 20 << 20

func main() {
	root := flag.String("root", "..", "folder of the module")
	out := flag.String("out", "dist", "folder that the binaries go to")
	verbose := flag.Bool("v", false, "print the size of each binary")
	flag.Parse()
	ctx := context.Background()
	err := all(ctx, *root, *out, *verbose)
	if err == nil && flag.NArg() > 0 {
		err = then(ctx, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// then runs what was given after the flags, which is how cdk.json starts the app.
// The runtime behind CDK works with Node 20, and need not say each time that it
// is old.
func then(ctx context.Context, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w", argv[0], err)
	}
	return nil
}

func all(ctx context.Context, root, out string, verbose bool) error {
	var wrong []error
	for _, s := range names.Surfaces() {
		size, err := one(ctx, root, out, s)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if size > largest {
			wrong = append(wrong, fmt.Errorf("%s has %d bytes, more than the %d MB it may have", s, size, largest>>20))
		}
		if verbose {
			fmt.Fprintf(os.Stderr, "%-7s %5.1f MB\n", s, float64(size)/(1<<20))
		}
	}
	return errors.Join(wrong...)
}

func one(ctx context.Context, root, out, surface string) (int64, error) {
	file, err := filepath.Abs(filepath.Join(out, surface, "bootstrap"))
	if err != nil {
		return 0, fmt.Errorf("build %s: %w", surface, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-tags=lambda.norpc", "-o", file, "./functions/"+surface)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build %s: %w: %s", surface, err, text)
	}
	st, err := os.Stat(file)
	if err != nil {
		return 0, fmt.Errorf("build %s: %w", surface, err)
	}
	return st.Size(), nil
}
