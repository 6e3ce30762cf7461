package git

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// OpenShared finds the repository whose shared directory a workspace plan
// records. It has no checkout: Head and CheckedOut are not for it. What Open
// refuses was refused when the plan was made, so it is not looked at again.
func OpenShared(ctx context.Context, common string, opts ...Option) (*Repo, error) {
	t, err := findTool()
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(common) {
		return nil, fault.Wrap(fault.Invalid, ErrNotRepository, "%q is not the directory of a repository", common)
	}
	r := &Repo{git: t, crash: func(string) {}, CommonDir: common, Root: common}
	for _, o := range opts {
		o(r)
	}
	conf, err := r.localConfig(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, errors.Join(ErrNotRepository, err), "git cannot open %q", common)
	}
	r.core, r.Format = map[string]string{}, "sha1"
	for _, kv := range conf {
		switch {
		case kv.key == "extensions.objectformat":
			r.Format = strings.ToLower(kv.value)
		case blobSettings[kv.key]:
			r.core[kv.key] = kv.value
		}
	}
	return r, nil
}
