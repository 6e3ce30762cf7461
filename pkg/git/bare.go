package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// InitBare makes a repository without a checkout in dir, or finds the one that is
// there. Nobody but this program knows it: it has no configuration of anybody's,
// no hooks, and its refs are what it is told they are.
func InitBare(ctx context.Context, dir, format string, opts ...Option) (*Repo, error) {
	if format != "sha1" && format != "sha256" {
		return nil, fault.New(fault.Invalid, "%q is not an object format", format)
	}
	if _, err := os.Lstat(filepath.Join(dir, "objects")); err != nil {
		t, err := findTool()
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make repository: %w", err)
		}
		_, err = t.run(ctx, invocation{dir: dir, env: t.owner, args: []string{
			"-c", "init.defaultBranch=none", "init", "-q", "--bare", "--template=", "--object-format=" + format, dir,
		}})
		if err != nil {
			return nil, fmt.Errorf("make repository: %w", err)
		}
	}
	return OpenShared(ctx, dir, opts...)
}

// FormatOf is the object format of a commit's id.
func FormatOf(commit string) string {
	if len(commit) == 64 {
		return "sha256"
	}
	return "sha1"
}
