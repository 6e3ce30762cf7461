package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// suite is the release of Debian that the recipes are made from.
const suite = "trixie"

// What the recipes are given in place of what they name.
const (
	debianImage = "localhost/debian"
	golangImage = "localhost/golang"
	nodeImage   = "localhost/node"
)

// shop builds images in a folder of its own.
type shop struct {
	ctx   context.Context //nolint:containedctx // the life of the command
	dir   string
	began time.Time
}

func (s *shop) say(format string, args ...any) {
	fmt.Printf("%6.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// do runs a command and returns what it printed.
func (s *shop) do(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, tail(out.String()), tail(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

func (s *shop) buildah(args ...string) (string, error) {
	// Every layer a copy: slower than overlays, and possible everywhere.
	return s.do("buildah", append([]string{
		"--storage-driver", "vfs", "--root", filepath.Join(s.dir, "store"), "--runroot", filepath.Join(s.dir, "run"),
	}, args...)...)
}

func (s *shop) close() {
	if _, err := s.buildah("rm", "--all"); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
	}
}

// debian makes the file system of a small Debian.
func (s *shop) debian(to string) error {
	part := filepath.Join(s.dir, "debian.tar")
	if _, err := s.do("mmdebstrap", "--variant=minbase", "--mode=root", "--quiet", suite, part); err != nil {
		return err
	}
	s.say("a Debian %s is made", suite)
	if part == to {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Rename(part, to); err == nil {
		return nil
	}
	_, err := s.do("cp", part, to) // another file system
	return err
}

// standIns makes images that stand for debian and golang.
func (s *shop) standIns(base string) error {
	c, err := s.buildah("from", "scratch")
	if err != nil {
		return err
	}
	if _, err := s.buildah("add", "--quiet", c, base, "/"); err != nil {
		return err
	}
	if _, err := s.buildah("config", "--cmd", "/bin/bash", c); err != nil {
		return err
	}
	if _, err := s.buildah("commit", "--quiet", c, debianImage); err != nil {
		return err
	}
	// Go itself and what it has built already are mounted from this machine.
	env := []string{"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOPATH=/go", "GOFLAGS=-buildvcs=false"}
	for _, name := range []string{"GOPROXY", "GOSUMDB"} {
		v, err := s.do("go", "env", name)
		if err != nil {
			return err
		}
		env = append(env, name+"="+v)
	}
	args := []string{"config"}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	if _, err := s.buildah(append(args, c)...); err != nil {
		return err
	}
	_, err = s.buildah("commit", "--quiet", "--rm", c, golangImage)
	s.say("the images that stand for others are there")
	return err
}

// build makes an image by its recipe.
func (s *shop) build(name, folder string, more ...string) error {
	args := append([]string{
		"bud", "--quiet", "--isolation", "chroot", "--layers=false", "--pull-never", "--tag", name, "--file", filepath.Join("images", filepath.Base(name), "Dockerfile"),
	}, more...)
	_, err := s.buildah(append(args, folder)...)
	if err != nil && unreached.MatchString(err.Error()) {
		err = errors.Join(errMachine, err)
	}
	return err
}

// unreached is what apt, npm and go say when it is not the recipe's fault.
var unreached = regexp.MustCompile(`Failed to fetch|Could not resolve|Could not connect|Unable to connect|Temporary failure|ECONNRE|ENOTFOUND|ETIMEDOUT|i/o timeout|no such host|connection refused|signed by unknown authority`)

const (
	supervisorImage = "localhost/supervisor"
	runtimeImage    = "localhost/runtime"
)

func (s *shop) supervisor() error {
	args := []string{"--build-arg", "GOLANG=" + golangImage, "--build-arg", "DEBIAN=" + debianImage}
	// This machine may reach the modules by an authority that no image trusts.
	if _, err := s.do("go", "mod", "download"); err != nil {
		return err
	}
	for name, at := range map[string]string{"GOROOT": "/usr/local/go", "GOMODCACHE": "/go/pkg/mod", "GOCACHE": "/root/.cache/go-build"} {
		dir, err := s.do("go", "env", name)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		args = append(args, "--volume", dir+":"+at)
	}
	if err := s.build(supervisorImage, ".", args...); err != nil {
		return err
	}
	s.say("images/supervisor is built")
	return nil
}

// runtime builds the recipe for agents with this machine's Node in place of the
// image of it.
func (s *shop) runtime() (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", err
	}
	root, err := s.do("npm", "root", "--global")
	if err != nil {
		return "", err
	}
	c, err := s.buildah("from", "--pull-never", debianImage)
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"copy", "--quiet", c, node, "/usr/local/bin/node"},
		{"copy", "--quiet", c, filepath.Join(root, "npm"), "/usr/local/lib/node_modules/npm"},
		{"run", "--isolation", "chroot", c, "--", "ln", "-s", "../lib/node_modules/npm/bin/npm-cli.js", "/usr/local/bin/npm"},
		// It trusts whom this machine trusts.
		{"config", "--env", "NODE_EXTRA_CA_CERTS=/run/trusted/ca-certificates.crt", c},
		{"commit", "--quiet", "--rm", c, nodeImage},
	} {
		if _, err := s.buildah(args...); err != nil {
			return "", err
		}
	}
	if err := s.build(runtimeImage, filepath.Join("images", "runtime"), "--build-arg", "NODE="+nodeImage, "--volume", "/etc/ssl/certs:/run/trusted:ro"); err != nil {
		return "", err
	}
	s.say("images/runtime is built")
	return runtimeImage, nil
}
