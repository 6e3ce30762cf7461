package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
)

// try looks into the images and runs what a run starts in them.
func (s *shop) try(agents string) error {
	trusted, err := s.open(supervisorImage)
	if err != nil {
		return err
	}
	foreign, err := s.open(agents)
	if err != nil {
		return err
	}
	if err := s.look(trusted, foreign, agents); err != nil {
		return err
	}
	volume := filepath.Join(s.dir, "helper")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		return err
	}
	d := fargate.Definition{SupervisorImage: supervisorImage, CPU: 1024, MemoryMiB: 4096}
	var all error
	for _, c := range d.Containers(agents) {
		all = errors.Join(all, s.container(c, map[string]string{supervisorImage: trusted, agents: foreign}[aws.ToString(c.Image)], volume))
	}
	return all
}

// open gives the files of a container of the image.
func (s *shop) open(image string) (string, error) {
	c, err := s.buildah("from", "--pull-never", image)
	if err != nil {
		return "", err
	}
	root, err := s.buildah("mount", c)
	if err != nil {
		return "", err
	}
	// What is mounted in a run has its place before the root is read-only.
	for _, at := range []string{names.HostedBin, names.HostedSockets, names.HostedHome, names.HostedWork, names.HostedPrivate} {
		if err := os.MkdirAll(filepath.Join(root, at), 0o755); err != nil {
			return "", err
		}
	}
	return root, nil
}

// look reads what is in the images.
func (s *shop) look(trusted, foreign, agents string) error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for image, root := range map[string]string{supervisorImage: trusted, agents: foreign} {
		if image == debianImage {
			continue // it is nobody's recipe
		}
		raised, err := setuid(root)
		if err != nil {
			return err
		}
		if len(raised) > 0 {
			bad("in %s some programs change their user: %q", image, raised)
		}
	}
	for _, no := range []string{"src", "go", "usr/local/go", "root/.cache"} {
		// Where something of this machine was mounted to build, empty folders stay.
		err := filepath.WalkDir(filepath.Join(trusted, no), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				bad("%s of the building stage is in the supervisor's image", strings.TrimPrefix(path, trusted))
				err = fs.SkipAll
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	raw, err := s.buildah("inspect", "--type", "image", supervisorImage)
	if err != nil {
		return err
	}
	var image struct {
		OCIv1 struct {
			Config struct {
				User            string
				Entrypoint, Env []string
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(raw), &image); err != nil {
		return err
	}
	c := image.OCIv1.Config
	if c.User != "0:0" || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/" + names.AgentBinary}) {
		bad("the supervisor's image runs %q as %q", c.Entrypoint, c.User)
	}
	for _, e := range c.Env {
		if !strings.HasPrefix(e, "PATH=") {
			bad("the supervisor's image sets %s", e)
		}
	}
	if len(problems) == 0 {
		s.say("no program changes its user, nothing of the building stage is left, it starts %s", c.Entrypoint[0])
	}
	return errors.Join(problems...)
}

func setuid(root string) (all []string, err error) {
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		info, err := d.Info()
		if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			all = append(all, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err == nil && files < 1000 {
		err = fmt.Errorf("only %d files are in %s", files, root)
	}
	return all, err
}

// capabilities are what a container has when nobody takes any away, with their
// numbers.
func capabilities() map[string]uint {
	return map[string]uint{
		"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
		"NET_BIND_SERVICE": 10, "NET_RAW": 13, "SYS_CHROOT": 18, "MKNOD": 27, "AUDIT_WRITE": 29, "SETFCAP": 31,
	}
}

// container runs the program in a container as its definition says, and looks at
// what it then may do.
func (s *shop) container(c types.ContainerDefinition, root, volume string) error {
	name := aws.ToString(c.Name)
	args := []string{"--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--die-with-parent", "--clearenv", "--setenv", "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	var writable []string
	for _, m := range c.MountPoints {
		at, ro := aws.ToString(m.ContainerPath), aws.ToBool(m.ReadOnly)
		switch {
		case at == names.HostedBin && ro:
			args = append(args, "--ro-bind", volume, at)
		case at == names.HostedBin:
			args = append(args, "--bind", volume, at)
		default:
			args = append(args, "--tmpfs", at)
		}
		if !ro {
			writable = append(writable, at)
		}
	}
	args = append(args, "--cap-drop", "ALL")
	var mask uint64
	for cap, bit := range capabilities() {
		if !slices.Contains(c.LinuxParameters.Capabilities.Drop, cap) {
			args, mask = append(args, "--cap-add", "CAP_"+cap), mask|1<<bit
		}
	}
	program := "/usr/local/bin/" + names.AgentBinary
	if len(c.EntryPoint) > 0 {
		program = c.EntryPoint[0]
	}
	if name == fargate.Helper { // which is all that it does
		if _, err := s.do("bwrap", append(args, append([]string{program}, c.Command...)...)...); err != nil {
			return err
		}
	}
	script := program + ` selfcheck
sed -n 's/^CapEff:\s*//p' /proc/self/status
for d in / /etc /usr/bin /lazy/bin ` + strings.Join(writable, " ") + `; do
  if (: >"$d/probe") 2>/dev/null; then echo "writes $d"; rm "$d/probe"; fi
done`
	if name == fargate.Agent {
		// As the helper starts an agent: another user, who inherits nothing.
		script += `
setpriv --reuid ` + fmt.Sprint(names.HostedUID) + ` --regid ` + fmt.Sprint(names.HostedUID) + ` --clear-groups --no-new-privs sh -c 'id -u; ` + program + ` selfcheck
sed -n "s/^CapEff:\s*//p" /proc/self/status
for d in / /etc /lazy/bin /lazy/run; do if (: >"$d/probe") 2>/dev/null; then echo "writes $d"; fi; done'`
	}
	out, err := s.do("bwrap", append(args, "sh", "-c", script)...)
	if err != nil {
		return err
	}
	lines := strings.Split(out, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, names.Sentinel) {
			lines[i] = names.Sentinel
		}
	}
	want := []string{names.Sentinel, fmt.Sprintf("%016x", mask)}
	for _, at := range append([]string{names.HostedBin}, writable...) {
		if slices.Contains(writable, at) {
			want = append(want, "writes "+at)
		}
	}
	if name == fargate.Agent {
		want = append(want, fmt.Sprint(names.HostedUID), names.Sentinel, fmt.Sprintf("%016x", 0))
	}
	if !slices.Equal(lines, want) {
		return fmt.Errorf("container %s:\n  got  %q\n  want %q", name, lines, want)
	}
	s.say("container %s: runs %s with capabilities %016x, and writes to %d mounts only", name, program, mask, len(writable))
	return nil
}
