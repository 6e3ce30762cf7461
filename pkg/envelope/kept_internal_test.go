package envelope

import (
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

func TestAnswersAreOnlyAddedTo(t *testing.T) {
	wiretest.Keep(
		t, filepath.Join("testdata", "kept"),
		wiretest.Of[Progress]("progress", nil), wiretest.Of[errorBody]("error", nil),
	)
}
