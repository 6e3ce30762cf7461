package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/install"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// cli is one that is installed as npm does: a script, and the program in the
// package of the platform.
func cli() agent.Install {
	return agent.Install{Program: "toycli", Package: "@toy/cli-%s", Native: "vendor/*/bin/toy", Get: "npm install -g toycli"}
}

func platform() string {
	return runtime.GOOS + "-" + strings.ReplaceAll(runtime.GOARCH, "amd64", "x64")
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

const elf = "\x7fELF and more"

func TestAProgramIsFoundBehindLinksAndScripts(t *testing.T) {
	name := "@toy/cli-" + platform()
	for what, c := range map[string]struct {
		files         map[string]string
		link          string // what the command is a link to
		program, root string
	}{
		"beside its script": {
			map[string]string{
				"lib/node_modules/toycli/bin/toy.js": "#!/usr/bin/env node\n", "lib/node_modules/toycli/package.json": "{}",
				"lib/node_modules/" + name + "/package.json": "{}", "lib/node_modules/" + name + "/vendor/some-triple/bin/toy": elf,
			},
			"lib/node_modules/toycli/bin/toy.js",
			"lib/node_modules/" + name + "/vendor/some-triple/bin/toy", "lib/node_modules/" + name,
		},
		"below its package": {
			map[string]string{
				"lib/node_modules/toycli/bin/toy.js": "#!/usr/bin/env node\n", "lib/node_modules/toycli/package.json": "{}",
				"lib/node_modules/toycli/node_modules/" + name + "/package.json":     "{}",
				"lib/node_modules/toycli/node_modules/" + name + "/vendor/x/bin/toy": elf,
			},
			"lib/node_modules/toycli/bin/toy.js",
			"lib/node_modules/toycli/node_modules/" + name + "/vendor/x/bin/toy", "lib/node_modules/toycli/node_modules/" + name,
		},
		"by itself": {
			map[string]string{"share/toy/versions/1.2.3": elf}, "share/toy/versions/1.2.3", "share/toy/versions/1.2.3", "share/toy/versions/1.2.3",
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for p, content := range c.files {
				write(t, filepath.Join(dir, p), content, 0o755)
			}
			write(t, filepath.Join(dir, "private"), "a secret of the person", 0o600)
			bin := filepath.Join(dir, ".local", "bin")
			if err := os.MkdirAll(bin, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(dir, c.link), filepath.Join(bin, "toycli")); err != nil {
				t.Fatal(err)
			}
			f, err := install.Find(cli(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if f.Program != filepath.Join(dir, c.program) || f.Root != filepath.Join(dir, c.root) || f.Stamp == "" {
				t.Errorf("found %+v", f)
			}
			t.Setenv("PATH", bin)
			if g, err := install.Find(cli(), ""); err != nil || g != f {
				t.Errorf("on the PATH: %+v, %v", g, err)
			}
			write(t, f.Program, elf+"!", 0o755)
			if g, err := install.Find(cli(), dir); err != nil || g.Stamp == f.Stamp {
				t.Errorf("an update is not noticed: %+v, %v", g, err)
			}
		})
	}
}

func TestWhatIsNotInstalledIsRefusedWithTheWayToInstallIt(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	_, err := install.Find(cli(), dir)
	if f := fault.Of(err); !errors.Is(err, install.ErrMissing) || f.Kind != fault.NotFound || !strings.Contains(f.Next[0].Text, cli().Get) {
		t.Errorf("missing: %v", err)
	}
	write(t, filepath.Join(dir, "toycli"), "#!/bin/sh\nexec something\n", 0o755)
	_, err = install.Find(cli(), dir)
	if f := fault.Of(err); f.Kind != fault.Failed || !strings.Contains(f.Next[0].Text, cli().Get) {
		t.Errorf("a script alone: %v", err)
	}
}
