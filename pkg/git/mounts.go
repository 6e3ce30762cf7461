package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Mount is one part of a workspace as an agent sees it. Later mounts lie on
// top of earlier ones.
type Mount struct {
	Path   string // where the agent sees it; a real path
	Source string // what is there; "" is Path itself
	RW     bool
}

// Mounts returns the plan of GT-001 at real paths, in the order to mount: the
// shared store read-only, then the tree, the worktree's git directory and its
// own objects writable, then the files that say where things are read-only
// again (GT-002). The agent sees a copy of the repository's configuration that
// holds neither credentials nor anything that names a program, and none of the
// repository's other worktrees.
func (ws Workspace) Mounts() []Mount {
	m := []Mount{{Path: ws.Shared}}
	for _, b := range ws.Borrowed {
		m = append(m, Mount{Path: b})
	}
	return append(m,
		Mount{Path: filepath.Join(ws.Shared, "config"), Source: ws.config()},
		Mount{Path: filepath.Join(ws.Shared, "worktrees"), Source: ws.nothing()},
		Mount{Path: ws.Tree, RW: true},
		Mount{Path: ws.GitDir, RW: true},
		Mount{Path: ws.Objects, RW: true},
		Mount{Path: filepath.Join(ws.Tree, ".git")},
		Mount{Path: filepath.Join(ws.GitDir, "commondir")},
		Mount{Path: filepath.Join(ws.GitDir, "gitdir")},
		Mount{Path: filepath.Join(ws.GitDir, "config.worktree")},
		Mount{Path: filepath.Join(ws.Objects, "info")},
	)
}

// Env returns the variables git needs inside: it writes to its own object
// directory and never repacks. Ownership is not checked, because a sandbox may
// show the files under another user.
func (ws Workspace) Env() []string {
	conf := [][2]string{{"gc.auto", "0"}, {"maintenance.auto", "false"}, {"safe.directory", "*"}}
	env := []string{"GIT_OBJECT_DIRECTORY=" + ws.Objects, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_COUNT=" + strconv.Itoa(len(conf))}
	for i, kv := range conf {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}

// publicConfig renders the part of the repository's configuration that an agent
// may see: what git needs to read the repository, who the person is, and where
// remotes are, without what a URL carries of credentials.
func (r *Repo) publicConfig(ctx context.Context) (string, error) {
	conf, err := r.localConfig(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, kv := range conf {
		first, last := strings.Index(kv.key, "."), strings.LastIndex(kv.key, ".")
		if first < 0 {
			continue
		}
		section, name := kv.key[:first], kv.key[last+1:]
		value := kv.value
		switch {
		case blobSettings[kv.key]:
		case kv.key == "core.repositoryformatversion", kv.key == "core.bare", kv.key == "extensions.objectformat", kv.key == "extensions.worktreeconfig":
		case kv.key == "user.name", kv.key == "user.email":
		case section == "remote" && name == "fetch":
		case section == "remote" && name == "url":
			value = withoutCredentials(value)
		case section == "branch" && (name == "remote" || name == "merge"):
		default:
			continue
		}
		if first == last {
			fmt.Fprintf(&b, "[%s]\n", section)
		} else {
			fmt.Fprintf(&b, "[%s %s]\n", section, confQuote(kv.key[first+1:last]))
		}
		fmt.Fprintf(&b, "\t%s = %s\n", name, confQuote(value))
	}
	return b.String(), nil
}

func confQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

// withoutCredentials drops user, password, query and fragment from a URL. A URL
// it cannot read is dropped whole: nothing says that it holds no secret.
func withoutCredentials(s string) string {
	if !strings.Contains(s, "://") {
		return s // scp-like or a path: no place for a password
	}
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	if u.User != nil {
		if u.Scheme == "ssh" {
			u.User = url.User(u.User.Username())
		} else {
			u.User = nil
		}
	}
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}

// borrowed lists the object stores that the shared store borrows from, which an
// agent has to be able to read too.
func borrowed(store string, depth int) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(store, "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) || depth == 0 {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read alternates: %w", err)
	}
	var all []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' || line[0] == '"' {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(store, line)
		}
		real, err := filepath.EvalSymlinks(line)
		if err != nil {
			continue // git ignores a store that is not there
		}
		more, err := borrowed(real, depth-1)
		if err != nil {
			return nil, err
		}
		all = append(append(all, real), more...)
	}
	return all, nil
}
