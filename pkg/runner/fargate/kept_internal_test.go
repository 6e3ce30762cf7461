package fargate

import (
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

func TestTheRecordOfALaunchIsOnlyAddedTo(t *testing.T) {
	wiretest.Keep(t, filepath.Join("testdata", "kept"), wiretest.Of[intent]("launch", nil))
}
