package local

import (
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

func TestTheRecordOfAnExecutionIsOnlyAddedTo(t *testing.T) {
	wiretest.Keep(
		t, filepath.Join("testdata", "kept"),
		wiretest.Of("flow", func(b []byte) (record, error) {
			return decode(store.Item{Doc: b, Attr: store.Attr{"schema": int64(schema)}})
		}),
		wiretest.Of[answer]("answer", nil),
	)
}
