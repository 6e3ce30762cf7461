package depot

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

func kept[T any](name string) wiretest.Kind {
	return wiretest.Of(name, func(b []byte) (v T, err error) { return v, json.Unmarshal(b, &v) })
}

func TestRowsOfARepositoryAreOnlyAddedTo(t *testing.T) {
	wiretest.Keep(t, filepath.Join("testdata", "rows"), kept[meta]("repository"), kept[ref]("branch"), kept[pack]("pack"))
}
