// Package install finds the agent CLIs that a person has installed: the program
// itself behind links and starter scripts, and the least that has to be shown of
// the machine for it to run in a sandbox.
package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Found is an installed CLI.
type Found struct {
	Command string // what people run, as it was found
	Program string // the program itself, without links
	Root    string // the file or directory that holds all of it, read only
	Stamp   string // another one after an update
}

// ErrMissing means that a CLI is not installed.
var ErrMissing = errors.New("not installed")

// Find looks for a CLI on the PATH of this process, and then where installers put
// programs without telling every shell. home is the person's; "" leaves those out.
func Find(i agent.Install, home string) (Found, error) {
	command, err := command(i.Program, home)
	if err != nil {
		return Found{}, fault.Wrap(fault.NotFound, errors.Join(ErrMissing, err), "the agent program %q is not installed", i.Program).
			WithNext("Install it: " + i.Get)
	}
	real, err := filepath.EvalSymlinks(command)
	if err != nil {
		return Found{}, fmt.Errorf("follow %s: %w", command, err)
	}
	f := Found{Command: command}
	if dir, program, ok := native(i, real); ok {
		f.Root, f.Program = dir, program
	} else if isProgram(real) {
		f.Root, f.Program = real, real
	} else {
		return Found{}, fault.New(fault.Failed, "%s is a script, and the program that it starts was not found beside it", command).
			WithNext("Install it again: " + i.Get)
	}
	fi, err := os.Stat(f.Program)
	if err != nil {
		return Found{}, fmt.Errorf("look at %s: %w", f.Program, err)
	}
	f.Stamp = fmt.Sprintf("%d-%d", fi.Size(), fi.ModTime().UnixNano())
	return f, nil
}

func command(name, home string) (string, error) {
	at, err := exec.LookPath(name)
	if err == nil {
		return filepath.Abs(at)
	}
	for _, dir := range places(home) {
		full := filepath.Join(dir, name)
		if fi, err := os.Stat(full); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", err
}

// places are where installers put commands.
func places(home string) []string {
	dirs := []string{"/usr/local/bin", "/opt/homebrew/bin"}
	if home == "" {
		return dirs
	}
	for _, d := range []string{".local/bin", ".claude/local", ".opencode/bin", ".npm-global/bin", ".bun/bin", ".volta/bin", "bin"} {
		dirs = append(dirs, filepath.Join(home, d))
	}
	nvm, _ := filepath.Glob(filepath.Join(home, ".nvm/versions/node/*/bin"))
	slices.Reverse(nvm)
	return append(dirs, nvm...)
}

// native finds the package of this platform: below the script's own package, or
// beside it in the node_modules that both are in.
func native(i agent.Install, script string) (dir, program string, ok bool) {
	if i.Package == "" {
		return "", "", false
	}
	name := strings.ReplaceAll(i.Package, "%s", platform())
	for up := filepath.Dir(script); up != filepath.Dir(up); up = filepath.Dir(up) {
		var at []string
		if filepath.Base(up) == "node_modules" {
			at = append(at, filepath.Join(up, name))
		} else if exists(filepath.Join(up, "package.json")) {
			at = append(at, filepath.Join(up, "node_modules", name))
		}
		for _, d := range at {
			for _, suffix := range []string{"", "-musl"} {
				if program, ok := inside(d+suffix, i.Native); ok {
					return filepath.Dir(exclude(program, i.Native)), program, true
				}
			}
		}
		if filepath.Base(up) == "node_modules" {
			break // what lies above belongs to others
		}
	}
	return "", "", false
}

// exclude returns a path just below the package's directory, given a program in it.
func exclude(program, pattern string) string {
	for range strings.Count(pattern, "/") {
		program = filepath.Dir(program)
	}
	return program
}

// inside finds the program in a package, links followed.
func inside(dir, pattern string) (string, bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !exists(filepath.Join(real, "package.json")) {
		return "", false
	}
	found, _ := filepath.Glob(filepath.Join(escape(real), pattern))
	for _, f := range found {
		if fi, err := os.Lstat(f); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return f, true
		}
	}
	return "", false
}

// escape keeps a path from being read as a pattern.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// platform is this machine as npm names it.
func platform() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return runtime.GOOS + "-" + arch
}

// isProgram is whether a file needs no interpreter.
func isProgram(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	if _, err := io.ReadFull(f, head); err != nil {
		return false
	}
	switch string(head) {
	case "\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe":
		return true
	}
	return false
}
