package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

func (e *Env) planeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "plane",
		Aliases: []string{"daemon"},
		Short:   "Look at the control plane, or restart it",
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.planeStatusCommand(), e.planeHealthCommand(), e.planeLogsCommand(), e.planeRestartCommand(), e.planeConfigCommand())
	return c
}

// planeState is what a person is told about their control plane.
type planeState struct {
	Running   bool      `json:"running"`
	URL       string    `json:"url,omitempty"`
	PID       int       `json:"pid,omitempty"`
	Started   time.Time `json:"started,omitzero"`
	Version   string    `json:"version,omitempty"`
	Root      string    `json:"project_root,omitempty"`
	State     string    `json:"state_dir,omitempty"`
	Log       string    `json:"log,omitempty"`
	Dashboard string    `json:"dashboard_url,omitempty"`
}

// state looks at the control plane in charge without starting one.
func (e *Env) state(ctx context.Context) (planeState, error) {
	if url := e.elsewhere(); url != "" {
		st, err := e.look(ctx, strings.TrimRight(url, "/"))
		if err != nil {
			return planeState{URL: url}, ctx.Err()
		}
		return planeState{Running: true, URL: url, Version: st.Version, Root: st.ProjectRoot, Dashboard: st.DashboardURL}, nil
	}
	p, err := e.paths()
	if err != nil {
		return planeState{}, err
	}
	s := planeState{Root: p.Root, State: p.Dir, Log: p.Log()}
	plane, ok, err := e.alive(ctx, p)
	if err != nil || !ok {
		return s, err
	}
	s.Running, s.URL, s.PID, s.Started, s.Version = true, plane.URL, plane.PID, plane.Started, plane.Version
	if st, err := e.look(ctx, plane.URL); err == nil {
		s.Dashboard = st.DashboardURL
	}
	return s, nil
}

func (e *Env) planeStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Print where the control plane is and since when",
		Args:  exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := e.state(c.Context())
			if err != nil {
				return err
			}
			if e.json {
				raw, err := json.Marshal(s)
				if err != nil {
					return fmt.Errorf("print state: %w", err)
				}
				return e.printJSON(raw)
			}
			r := recordPrinter{e: e}
			if !s.Running {
				r.line("Not running. The next command that needs it starts it.")
			} else {
				r.line("Running: %s", line(s.URL))
				if s.PID != 0 {
					r.field("pid", fmt.Sprint(s.PID))
					r.field("started", r.e.ago(s.Started))
				}
				r.field("version", s.Version)
			}
			r.field("project", s.Root)
			r.field("state", s.State)
			r.field("log", s.Log)
			web := s.Dashboard
			if web == "" {
				web = "off"
			}
			r.line("Web: %s", line(web))
			return e.printf("%s", r.b.String())
		},
	}
	e.jsonFlag(c)
	return c
}

func (e *Env) planeHealthCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "health",
		Short: "Succeed if the control plane answers",
		Args:  exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			began := e.Now()
			s, err := e.state(c.Context())
			if err != nil {
				return err
			}
			took := e.Now().Sub(began)
			if e.json {
				raw, err := json.Marshal(map[string]any{"healthy": s.Running, "url": s.URL, "answered_ms": took.Milliseconds()})
				if err != nil {
					return fmt.Errorf("print health: %w", err)
				}
				if err := e.printJSON(raw); err != nil {
					return err
				}
			}
			if !s.Running {
				return fault.New(fault.Failed, "the control plane does not answer").WithNext("Start it with `lazy up`, or look at its log: `lazy plane logs`.")
			}
			if e.json {
				return nil
			}
			return e.printf("It answers (%s).\n", span(took))
		},
	}
	e.jsonFlag(c)
	return c
}

func (e *Env) planeRestartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart",
		Short: "Restart this project's control plane; running agents are found again",
		Args:  exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if e.elsewhere() != "" {
				return refusal.Of(refusal.LocalOnly, "`lazy plane restart`")
			}
			p, err := e.paths()
			if err != nil {
				return err
			}
			if _, err := config.LoadProject(p.Config()); err != nil {
				return err // it would not come up again
			}
			if _, err := e.down(c.Context(), p); err != nil {
				return err
			}
			plane, err := e.start(c.Context(), p, true)
			if err != nil {
				return err
			}
			return e.printf("The control plane of %s listens on %s\n", clean(p.Root), line(plane.URL))
		},
	}
}

// followEvery is how often a log is looked at for more.
const followEvery = 250 * time.Millisecond

func (e *Env) planeLogsCommand() *cobra.Command {
	noFollow, lines := false, names.LogTailLines
	c := &cobra.Command{
		Use:   "logs [SHORT-ID]",
		Short: "Print the control plane's log, of one task or whole",
		Args:  between(0, 1, "the task"), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if lines < 0 {
				return usage(c, "-n expects 0 or more, got %d", lines)
			}
			if e.elsewhere() != "" {
				return refusal.Of(refusal.LocalOnly, "`lazy plane logs`")
			}
			p, err := e.paths()
			if err != nil {
				return err
			}
			only := ""
			if len(words) == 1 {
				only = words[0]
			}
			err = e.logs(c.Context(), p.Log(), only, lines, !noFollow)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	c.Flags().BoolVar(&noFollow, "no-follow", false, "stop at the end of the log")
	c.Flags().IntVarP(&lines, "lines", "n", lines, "how many of the last lines to print first")
	return c
}

// logs prints the last lines of a log that name a task, then what is added.
func (e *Env) logs(ctx context.Context, path, only string, lines int, follow bool) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "there is no log yet: the control plane has never run").WithNext("Start it with `lazy up`.")
	}
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewReader(f)
	var last []string
	part := ""
	for {
		s, err := in.ReadString('\n')
		part += s
		if err == nil {
			if strings.Contains(part, only) {
				last = append(last, part)
				if len(last) > lines {
					last = last[1:]
				}
			}
			part = ""
			continue
		}
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the log: %w", err)
		}
		for _, l := range last {
			if err := e.printf("%s", clean(l)); err != nil {
				return err
			}
		}
		last, lines = nil, int(^uint(0)>>1)
		if !follow {
			return nil
		}
		pause := followEvery
		if err := sleep(ctx, &pause); err != nil {
			return err
		}
	}
}
