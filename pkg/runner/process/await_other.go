//go:build !linux

package process

import (
	"time"

	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// await returns when the process has ended.
func await(i spool.Ident) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for i.Alive() {
		<-t.C
	}
}
