package local

import (
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/seal"
	"github.com/lazyplane/lazyplane/pkg/wire/disk"
)

// NewSealer returns what seals secrets on a laptop.
func NewSealer(dir string) seal.Sealer { return newSealer(dir) }

// NewRepository returns git as use cases see it.
func NewRepository(r *git.Repo, p config.Paths) app.Repository { return disk.NewRepository(r, p) }
