package spool_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

// file is the kind of a file of a run, which a supervisor and a control plane of
// two versions both read.
func file[T any](t *testing.T, name string) wiretest.Kind {
	t.Helper()
	dir := t.TempDir()
	return wiretest.Of(name, func(b []byte) (v T, err error) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return v, err
		}
		_, err = spool.Read(dir, name, &v)
		return v, err
	})
}

func TestTheFilesOfARunAreOnlyAddedTo(t *testing.T) {
	wiretest.Keep(
		t, filepath.Join("testdata", "files"),
		file[spool.Start](t, "start"), file[spool.Hello](t, "hello"), file[spool.Ident](t, "ident"), file[spool.Stop](t, "stop"),
		file[spool.Exit](t, "exit"), file[spool.Token](t, "token"), file[spool.Acked](t, "acked"), file[spool.Box](t, "box"),
	)
}
