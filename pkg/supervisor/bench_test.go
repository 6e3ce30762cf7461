package supervisor_test

import (
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
)

// BenchmarkSpawnSandboxed measures from the launch of a run to the control plane
// knowing that its agent's process runs, in a sandbox made for it ("new") or left
// by an earlier turn ("warm").
func BenchmarkSpawnSandboxed(b *testing.B) {
	for name, warm := range map[string]bool{"new": false, "warm": true} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, "true")
			if warm {
				r.run()
				r.next("true")
			}
			var whole time.Duration
			for b.Loop() {
				began := time.Now()
				r.launch()
				r.plane.Until("the agent runs", func(p *planetest.Plane) bool {
					for _, beat := range p.Beats {
						if beat.State != "preparing" {
							return true
						}
					}
					return len(p.Reports) > 0
				})
				b.StopTimer()
				r.plane.Report()
				whole += time.Since(began)
				r.gone()
				if !warm {
					must(b, r.runner.EndTask(b.Context(), taskID))
				}
				r.next("true")
				b.StartTimer()
			}
			b.ReportMetric(float64(whole.Milliseconds())/float64(b.N), "ms-to-report/op")
		})
	}
}
