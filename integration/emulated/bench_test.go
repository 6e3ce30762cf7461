package emulated_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/integration/lambdafake"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// BenchmarkFunctions reports the largest of the deployed programs, and the longest
// that one of them takes from its start to its first request for work.
func BenchmarkFunctions(b *testing.B) {
	dir, err := built()
	if err != nil {
		b.Fatal(err)
	}
	arn := "arn:aws:states:eu-west-1:123456789012:stateMachine:m"
	env := []string{
		"AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_ENDPOINT_URL=http://127.0.0.1:9",
		names.EnvTable + "=t", names.EnvBucket + "=b", names.EnvKey + "=k",
		names.EnvMachineTurn + "=" + arn, names.EnvMachineRecov + "=" + arn, names.EnvMachineAccept + "=" + arn,
	}
	var size, init float64
	for b.Loop() {
		for _, name := range names.Surfaces() {
			bin := filepath.Join(dir, name)
			info, err := os.Stat(bin)
			if err != nil {
				b.Fatal(err)
			}
			size = max(size, float64(info.Size())/1e6)
			f, err := lambdafake.Start(lambdafake.Config{Name: name, Bin: bin, Env: env})
			if err != nil {
				b.Fatal(err)
			}
			const starts = 9
			for n := range starts {
				go func() { _, _ = f.Invoke(b.Context(), []byte("{}")) }()
				for len(f.Inits()) <= n {
					time.Sleep(time.Millisecond)
				}
				f.Kill()
			}
			f.Close()
			all := f.Inits()
			slices.Sort(all)
			init = max(init, float64(all[len(all)/2].Microseconds())/1000)
		}
	}
	b.ReportMetric(size, "MB-largest")
	b.ReportMetric(init, "ms-init")
}
