package file_test

import (
	"testing"

	"github.com/lazyplane/lazyplane/pkg/blob/blobtest"
	"github.com/lazyplane/lazyplane/pkg/blob/file"
)

func TestFilesKeepTheContract(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blobtest.Store {
		s, err := file.New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
