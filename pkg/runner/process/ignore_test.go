package process_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// ignoreTerm makes a child that does not end when asked, and says so.
func ignoreTerm() {
	signal.Ignore(syscall.SIGTERM)
	_ = os.WriteFile(filepath.Join(os.Args[3], "ignoring"), nil, 0o600)
}
