package runnerapi

import (
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/turn"
	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

// said is a body as this surface reads it.
func said[T any](name string) wiretest.Kind {
	return wiretest.Of(name, func(b []byte) (v T, err error) { return v, decode(b, &v) })
}

func TestWhatSupervisorsSayAndAreToldIsOnlyAddedTo(t *testing.T) {
	wiretest.Keep(
		t, filepath.Join("testdata", "wire"),
		said[turn.Hello]("hello"), said[turn.BeatIn]("beat"), said[turn.Response]("report"), said[turn.GitIn]("git"), said[turn.UploadIn]("upload"),
		said[turn.TokenIn]("token"), wiretest.Of[turn.TokenOut]("token-answer", nil),
		wiretest.Of[turn.Welcome]("hello-answer", nil), wiretest.Of[turn.BeatOut]("beat-answer", nil), wiretest.Of[turn.Ack]("report-answer", nil),
		said[turn.LandIn]("land"), wiretest.Of[turn.LandOut]("land-answer", nil),
		wiretest.Of[turn.GitOut]("git-answer", nil), wiretest.Of[turn.UploadOut]("upload-answer", nil),
	)
}
