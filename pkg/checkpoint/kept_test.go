package checkpoint_test

import (
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

func TestAManifestIsOnlyAddedTo(t *testing.T) {
	wiretest.Keep(t, filepath.Join("testdata", "kept"), wiretest.Of[checkpoint.Manifest]("manifest", nil))
}
