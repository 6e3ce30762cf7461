// Package images checks the recipes of the container images as they are written:
// who they run as, what they are made from, and that nothing secret or unpinned is
// in them. The command in images/build builds one and looks inside.
package images

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Step is one instruction of a recipe.
type Step struct {
	Line int
	Op   string // upper case
	Args string // continuation lines joined
}

// Parse reads a Dockerfile.
func Parse(in io.Reader) (steps []Step, err error) {
	var cur *Step
	sc := bufio.NewScanner(in)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		rest, more := strings.CutSuffix(line, `\`)
		rest = strings.TrimSpace(rest)
		if cur == nil {
			op, args, ok := strings.Cut(rest, " ")
			if !ok {
				return nil, fmt.Errorf("line %d: %q is no instruction", n, line)
			}
			cur = &Step{Line: n, Op: strings.ToUpper(op), Args: strings.TrimSpace(args)}
		} else {
			cur.Args += " " + rest
		}
		if !more {
			steps = append(steps, *cur)
			cur = nil
		}
	}
	if cur != nil {
		return nil, fmt.Errorf("line %d: the instruction does not end", cur.Line)
	}
	return steps, sc.Err()
}

var (
	from     = regexp.MustCompile(`^([a-z0-9./_-]+):([A-Za-z0-9._-]*\d[A-Za-z0-9._-]*)(@sha256:[0-9a-f]{64})?(\s+AS\s+[a-z]+)?$`)
	secret   = regexp.MustCompile(`(?i)(token|secret|passw|credential|api_?key|private_?key|AKIA[0-9A-Z]{16}|sk-ant|ghp_)`)
	piped    = regexp.MustCompile(`(curl|wget)[^|&;]*\|\s*(ba|z|da)?sh`)
	packages = regexp.MustCompile(`npm install[^&;]*`)
	pinned   = regexp.MustCompile(`^(@[a-z0-9-]+/)?[a-z0-9-]+@\d+\.\d+\.\d+$`)
)

// Check names everything in a recipe that must not be there.
func Check(steps []Step) (problems []string) {
	bad := func(s Step, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("line %d: %s", s.Line, fmt.Sprintf(format, args...)))
	}
	stages, preset := map[string]bool{}, map[string]string{}
	for _, s := range steps {
		if secret.MatchString(s.Args) {
			bad(s, "something secret seems to be in it")
		}
		switch s.Op {
		case "ARG":
			name, value, _ := strings.Cut(s.Args, "=")
			preset[name] = value
		case "FROM":
			args := os.Expand(s.Args, func(name string) string { return preset[name] })
			name, _, _ := strings.Cut(args, " ")
			if !stages[name] && args != "scratch" && !from.MatchString(args) {
				bad(s, "%q is not an image of one version", args)
			}
			if _, as, ok := strings.Cut(s.Args, " AS "); ok {
				stages[as] = true
			}
		case "ADD":
			bad(s, "ADD fetches and unpacks; use COPY")
		case "RUN":
			if piped.MatchString(s.Args) {
				bad(s, "it runs what it fetches")
			}
			for p := range strings.FieldsSeq(packages.FindString(s.Args)) {
				if p != "npm" && p != "install" && !strings.HasPrefix(p, "-") && !pinned.MatchString(p) {
					bad(s, "%q is not of one version", p)
				}
			}
			if strings.Contains(s.Args, "apt-get install") && !strings.Contains(s.Args, "--no-install-recommends") {
				bad(s, "it installs what nobody asked for")
			}
		case "VOLUME", "EXPOSE", "ONBUILD", "SHELL", "HEALTHCHECK":
			bad(s, "%s has no place in a run", s.Op)
		}
	}
	return problems
}

// Last returns the arguments of the last instruction op of the final stage.
func Last(steps []Step, op string) string {
	got := ""
	for _, s := range steps {
		switch s.Op {
		case "FROM":
			got = ""
		case op:
			got = s.Args
		}
	}
	return got
}
