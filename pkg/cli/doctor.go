package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
)

// check is one thing doctor looked at.
type check struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, warn, fail
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// Oldest git that has all the broker uses.
const gitMajor, gitMinor = 2, 38

var gitVersion = regexp.MustCompile(`(\d+)\.(\d+)`)

func (e *Env) doctorCommand() *cobra.Command {
	deep := false
	var cloud awsLook
	c := &cobra.Command{
		Use:   "doctor [TASK]",
		Short: "Check this machine and project, or say why a task does not move",
		Long: `doctor checks git, the sandbox, the state folder and the control plane, and says what to do about each fault.

With a task it says where that task is, what is known about its run, its flow and the work ordered for it, what
happens next by itself and when, and what to type.`,
		Args: between(0, 1, "the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if len(words) == 1 {
				return e.explain(c.Context(), words[0])
			}
			var all []check
			if cloud.on {
				all = e.checkAWS(c.Context(), cloud)
			} else {
				all = e.examine(c.Context(), deep)
			}
			failed := 0
			for _, k := range all {
				if k.State == "fail" {
					failed++
				}
			}
			if e.json {
				raw, err := json.Marshal(struct {
					OK     bool    `json:"ok"`
					Checks []check `json:"checks"`
				}{failed == 0, all})
				if err != nil {
					return fmt.Errorf("print checks: %w", err)
				}
				if err := e.printJSON(raw); err != nil {
					return err
				}
			} else {
				for _, k := range all {
					if err := e.printf("%-5s %-14s %s\n", k.State, k.Name, line(k.Detail)); err != nil {
						return err
					}
					if k.Remedy != "" {
						if err := e.printf("      %14s %s\n", "", line(k.Remedy)); err != nil {
							return err
						}
					}
				}
			}
			if failed > 0 {
				return fault.New(fault.Failed, "%s failed", count(failed, "check"))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&deep, "deep", false, "also compare every record with the repository and the running processes")
	c.Flags().BoolVar(&cloud.on, "aws", false, "check instead the AWS account that is to be deployed to: identity, Region, quotas, rights")
	c.Flags().StringVar(&cloud.region, "region", "", "with --aws: Region to deploy to (default: that of your AWS configuration)")
	c.Flags().StringVar(&cloud.stage, "stage", "prod", "with --aws: stage of the stack")
	e.jsonFlag(c)
	return c
}

// examine looks at everything, so that a person sees all that is wrong at once.
func (e *Env) examine(ctx context.Context, deep bool) []check {
	all := []check{
		{"lazy", "ok", e.Version + " (" + e.Build.OS + "/" + e.Build.Arch + ")", ""},
		e.checkGit(ctx), e.checkSandbox(ctx),
	}
	all = append(all, e.checkProtections(ctx)...)
	all = append(all, e.checkState())
	root, err := config.FindRoot(e.Dir)
	if err != nil {
		return append(all, check{"project", "warn", fault.Of(err).Public, firstNext(err)})
	}
	all = append(all, check{"project", "ok", root, ""}, e.checkIdentity(ctx, root))
	p, err := config.PathsFor(root, e.Getenv)
	if err != nil {
		return all // checkState has said it
	}
	all = append(all, e.checkConfig(p)...)
	all = append(all, e.checkPlane(ctx, p)...)
	if deep {
		all = append(all, e.checkDeep(ctx, p)...)
	}
	return all
}

// checkDeep asks the control plane which of its promises do not hold, and starts
// it when it does not run: only it may read the records.
func (e *Env) checkDeep(ctx context.Context, p config.Paths) []check {
	c, err := e.client(ctx)
	if err != nil {
		return []check{{"deep", "fail", fault.Of(err).Public, firstNext(err)}}
	}
	var found op.Checked
	if err := c.Call(ctx, "checkDeep", args{}, &found); err != nil {
		return []check{{"deep", "fail", "the records could not be checked: " + fault.Of(err).Public, "Look at " + p.Log() + "."}}
	}
	var out []check
	for _, f := range found.Findings {
		says := f.Promise + ": " + f.Says
		if f.Task != "" {
			says = f.Promise + " " + f.Task + ": " + f.Says
		}
		out = append(out, check{"deep", "fail", says, f.Next})
	}
	for _, s := range found.Pending {
		out = append(out, check{"deep", "warn", s, "It is retried by itself."})
	}
	for _, s := range found.Moving {
		out = append(out, check{"deep", "warn", s + " changed at every look, so nothing is said about it", "Run it again when the task rests."})
	}
	if len(found.Findings) == 0 {
		out = append(out, check{"deep", "ok", fmt.Sprintf("every promise holds over %s and %d records", count(found.Tasks, "task"), found.Rows), ""})
	}
	return out
}

func firstNext(err error) string {
	if n := fault.Of(err).Next; len(n) > 0 {
		return n[0].Text
	}
	return ""
}

func (e *Env) checkGit(ctx context.Context) check {
	out, err := e.Output(ctx, e.Dir, "git", "--version")
	if err != nil {
		return check{"git", "fail", "git cannot be run", "Install git."}
	}
	out = strings.TrimSpace(out)
	m := gitVersion.FindStringSubmatch(out)
	if m == nil {
		return check{"git", "warn", "git does not say its version: " + out, ""}
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < gitMajor || major == gitMajor && minor < gitMinor {
		return check{"git", "fail", out, fmt.Sprintf("Install git %d.%d or newer.", gitMajor, gitMinor)}
	}
	return check{"git", "ok", out, ""}
}

func (e *Env) checkSandbox(ctx context.Context) check {
	if err := e.Probe(ctx); err != nil {
		f := fault.Of(err)
		detail := f.Public
		if f.Kind == fault.Internal && f.Err != nil {
			detail = f.Err.Error()
		}
		remedy := firstNext(err)
		if remedy == "" {
			remedy = "Install bubblewrap and allow user namespaces, or run agents unprotected with `lazy up --host-process`."
		}
		return check{"sandbox", "fail", detail, remedy}
	}
	return check{"sandbox", "ok", "agents can be sandboxed: own namespaces, no network of their own", ""}
}

// checkProtections lists what contains agents here, each by its name, and says of
// one that is missing what would bring it.
func (e *Env) checkProtections(ctx context.Context) []check {
	if e.Protect == nil {
		return nil
	}
	var all []check
	for _, p := range e.Protect(ctx) {
		state := "ok"
		if !p.Holds {
			state = "warn"
		}
		all = append(all, check{"  " + p.Name, state, p.Detail, p.Remedy})
	}
	return all
}

// checkReach says what the project's settings let agents reach and take.
func checkReach(p config.Project) []check {
	limit := func(n int64, text string) string {
		if n == 0 {
			return "no limit of " + text
		}
		if n >= 1<<20 {
			return fmt.Sprintf("%d MB of %s", n>>20, text)
		}
		return fmt.Sprintf("%d %s", n, text)
	}
	reach := check{"reach", "ok", "network = " + p.Network + ": ", ""}
	switch {
	case p.Network == config.NetworkNone:
		reach.Detail += "agents reach nothing but their tools"
	case p.Network == config.NetworkOpen:
		reach.Detail += "agents reach the public internet, and can send the repository they were given there"
		reach.Remedy = "Name the hosts they need: network = \"allow:host,…\"."
	default:
		reach.Detail += "agents reach these hosts and nothing else"
	}
	return []check{reach, {
		"limits", "ok", strings.Join([]string{
			limit(p.Limits.Processes, "processes"), limit(p.Limits.MemoryBytes, "memory"), limit(p.Limits.DiskBytes, "disk"),
			limit(p.Limits.OpenFiles, "open files each"),
		}, ", "), "",
	}}
}

func (e *Env) checkState() check {
	home, err := config.Home(e.Getenv)
	if err != nil {
		return check{"state", "fail", fault.Of(err).Public, firstNext(err)}
	}
	remedy := "Free the disk or correct the permissions, or set " + names.EnvHome + "."
	if err := os.MkdirAll(home, 0o700); err != nil {
		return check{"state", "fail", fmt.Sprintf("%s cannot be made: %v", home, cause(err)), remedy}
	}
	f, err := os.CreateTemp(home, ".doctor-*")
	if err != nil {
		return check{"state", "fail", fmt.Sprintf("%s cannot be written: %v", home, cause(err)), remedy}
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	return check{"state", "ok", home, ""}
}

func (e *Env) checkIdentity(ctx context.Context, root string) check {
	name, _ := e.Output(ctx, root, "git", "config", "user.name")
	mail, _ := e.Output(ctx, root, "git", "config", "user.email")
	if strings.TrimSpace(name) == "" || strings.TrimSpace(mail) == "" {
		return check{"identity", "warn", "git does not know who you are, so records name no person", "git config user.name … and git config user.email …"}
	}
	return check{"identity", "ok", strings.TrimSpace(name) + " <" + strings.TrimSpace(mail) + ">", ""}
}

func (e *Env) checkConfig(p config.Paths) []check {
	project, err := config.LoadProject(p.Config())
	if err != nil {
		return []check{{"lazy.toml", "fail", fault.Of(err).Public, firstNext(err)}}
	}
	out := append([]check{{"lazy.toml", "ok", "agent " + project.Agent + ", network " + project.Network, ""}}, checkReach(project)...)
	argv := project.Agents[project.Agent].Command
	if len(argv) > 0 {
		prog := argv[0]
		_, err := e.LookPath(prog)
		if strings.Contains(prog, "/") && !strings.HasPrefix(prog, "/") {
			err = nil // relative to the task's own work tree
		}
		if err != nil {
			out = append(out, check{"agent", "fail", "the program " + prog + " is not on the path", "Correct [agents." + project.Agent + "] in lazy.toml."})
		}
	}
	return out
}

func (e *Env) checkPlane(ctx context.Context, p config.Paths) []check {
	plane, ok, err := e.alive(ctx, p)
	if err != nil {
		return []check{{"plane", "fail", fault.Of(err).Public, firstNext(err)}}
	}
	if !ok {
		return []check{{"plane", "ok", "not running; the next command that needs it starts it", ""}}
	}
	out := []check{{"plane", "ok", fmt.Sprintf("%s, pid %d, version %s", plane.URL, plane.PID, plane.Version), ""}}
	if plane.Version != e.Version {
		out[0].State, out[0].Remedy = "warn", "It runs another version than this program: `lazy plane restart`."
	}
	if plane.HostProcess {
		out = append(out, check{
			"host-process", "warn", "agents run WITHOUT a sandbox: nothing above but the git broker stands between them and your account",
			"`lazy down`, then `lazy up` without --host-process.",
		})
	}
	c, err := e.dial(p, plane)
	if err != nil {
		return append(out, check{"tasks", "fail", fault.Of(err).Public, firstNext(err)})
	}
	var list op.Listing
	if err := c.Call(ctx, "listTasks", args{"status": []string{"merging"}}, &list); err != nil {
		return append(out, check{"tasks", "fail", "the control plane does not list its tasks: " + fault.Of(err).Public, "Look at " + p.Log() + "."})
	}
	for _, t := range list.Tasks {
		out = append(out, check{
			"tasks", "warn", fmt.Sprintf("%s (%s) is merging since %s", t.Code, t.Short, e.ago(t.Updated)),
			"It goes on by itself; `lazy accept " + t.Code + "` follows it.",
		})
	}
	if len(list.Tasks) == 0 {
		out = append(out, check{"tasks", "ok", "none is stuck in merging", ""})
	}
	return out
}
