package disk

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Settings reads lazy.toml as use cases need it, again whenever the file changed,
// so that an edit counts from the next operation on.
type Settings struct {
	paths config.Paths
	host  bool

	mu   sync.Mutex
	when time.Time // guarded by mu: of the file that cfg was read from
	cfg  config.Project
	read bool
}

// NewSettings reads the lazy.toml of the repository at paths. host has agents run
// without a sandbox.
func NewSettings(paths config.Paths, host bool) *Settings {
	return &Settings{paths: paths, host: host}
}

func (s *Settings) config() (config.Project, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fi, err := os.Stat(s.paths.Config())
	if err == nil && s.read && fi.ModTime().Equal(s.when) {
		return s.cfg, nil
	}
	cfg, err := config.LoadProject(s.paths.Config())
	if err != nil {
		return config.Project{}, err
	}
	s.cfg, s.read = cfg, true
	if fi != nil {
		s.when = fi.ModTime()
	}
	return cfg, nil
}

// Project names the project: as lazy.toml does, else by its folder.
func (s *Settings) Project() (string, error) {
	cfg, err := s.config()
	if err != nil {
		return "", err
	}
	if cfg.Name != "" {
		return cfg.Name, nil
	}
	return filepath.Base(s.paths.Root), nil
}

// Load returns the settings. It knows one project, so nobody need name it.
func (s *Settings) Load(_ context.Context, _, _ string) (app.Settings, error) {
	cfg, err := s.config()
	if err != nil {
		return app.Settings{}, err
	}
	out := Of(cfg)
	out.HostProcess, out.Source = s.host, s.paths.Root
	return out, nil
}

// Of is a lazy.toml as use cases see it, wherever it was read.
func Of(cfg config.Project) app.Settings {
	out := app.Settings{
		Agents: map[string]app.Agent{}, DefaultAgent: cfg.Agent, Protected: cfg.Protected, Setup: cfg.Setup, Copy: cfg.Copy,
		Network: cfg.Network, Limits: turn.Limits(cfg.Limits), Publish: cfg.Publish, Watchdog: cfg.Watchdog, TokenBudget: cfg.TokenBudget, TurnAge: cfg.TurnAge,
		TinyLines: cfg.TinyLines, TinyFiles: cfg.TinyFiles, UsagePause: float64(cfg.UsagePause),
	}
	for _, name := range names.AgentCLIs() {
		out.Agents[name] = app.Agent{ID: name, Offered: true}
	}
	for name, a := range cfg.Agents {
		out.Agents[name] = app.Agent{ID: name, Argv: a.Command, Env: a.Env}
	}
	return out
}
