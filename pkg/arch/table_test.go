package arch_test

// layer is a group of packages with the same rights.
type layer struct {
	name string
	// packages are paths below the module; "x/*" stands for every direct child.
	packages []string
	// may names the layers and single packages it may import, besides its own
	// layer where within is set.
	may    []string
	within bool
	// also lists modules outside the standard library for the whole layer.
	also []string
	// never lists standard packages the layer stays away from.
	never []string
	// anything lifts the rule for the modules outside this one.
	anything bool
}

// layers is the import rule (DESIGN 3): arrows point to the centre only. A new
// package is added to the layer it belongs to; a package that needs another
// layer first has to say why in its commit.
func layers() []layer {
	protocols := []string{"net/http", "database/sql", "os/exec"}
	centre := []string{"base", "nouns", "ports"}
	return []layer{
		{
			name:     "base",
			packages: []string{"pkg/fault", "pkg/id", "pkg/names", "pkg/pattern", "pkg/text", "pkg/identity", "pkg/refusal"},
			within:   true,
			also:     []string{"github.com/google/uuid"},
			never:    protocols,
		},
		{
			name: "nouns",
			packages: []string{
				"pkg/task", "pkg/turn", "pkg/raise", "pkg/event", "pkg/forge", "pkg/goal", "pkg/plan",
				"pkg/chain", "pkg/review", "pkg/project", "pkg/session", "pkg/model",
			},
			may:    []string{"base"},
			within: true,
			never:  protocols,
		},
		{
			name: "ports",
			packages: []string{
				"pkg/store", "pkg/engine", "pkg/engine/asl", "pkg/sandbox", "pkg/runner",
				"pkg/blob", "pkg/seal", "pkg/secret", "pkg/bus", "pkg/queue",
			},
			may:    []string{"base", "nouns"},
			within: true,
			never:  protocols,
		},
		{
			name:     "use cases",
			packages: []string{"pkg/app"},
			may:      centre,
			never:    protocols,
		},
		{
			name:     "catalogue",
			packages: []string{"pkg/op"},
			may:      append([]string{"use cases"}, centre...),
			also:     []string{"github.com/google/jsonschema-go"},
			never:    protocols,
		},
		{
			// An adapter is one technology behind one port. It never imports another.
			name: "adapters",
			packages: []string{
				"pkg/store/sqlite", "pkg/store/dynamo", "pkg/engine/local", "pkg/engine/sfn",
				"pkg/sandbox/*", "pkg/runner/process", "pkg/runner/fargate", "pkg/blob/*", "pkg/seal/*", "pkg/secret/*", "pkg/bus/*", "pkg/queue/*",
				"pkg/git", "pkg/preflight",
			},
			may: centre,
		},
		{
			// A forge on disk is a git repository, so git is its technology.
			name:     "forges",
			packages: []string{"pkg/forge/*"},
			may:      append([]string{"pkg/git"}, centre...),
		},
		{
			// The definitions that engines run and the shapes of events, embedded.
			name:     "definitions",
			packages: []string{"statemachines", "events"},
		},
		{
			// Contract suites: every adapter of a port runs the same one.
			name:     "suites",
			packages: []string{"pkg/store/storetest", "pkg/engine/enginetest", "pkg/forge/forgetest", "pkg/blob/blobtest", "pkg/seal/sealtest", "pkg/runner/runnertest", "pkg/bus/bustest", "pkg/secret/secrettest", "pkg/wiretest"},
			may:      append([]string{"pkg/req", "definitions"}, centre...),
			also:     []string{"pgregory.net/rapid", "github.com/google/go-cmp", "github.com/google/jsonschema-go"},
		},
		{
			name:     "requirements",
			packages: []string{"pkg/req"},
		},
		{
			name: "edges",
			packages: []string{
				"pkg/rpc", "pkg/mcpserver", "pkg/runnerapi", "pkg/builderapi", "pkg/webhook", "pkg/step", "pkg/web", "pkg/oauth", "pkg/edge",
				"pkg/edge/lambdahttp", "pkg/feed",
			},
			// Every line about a request says whose it is, which an edge learns first.
			may: append([]string{"catalogue", "use cases", "envelope", "pkg/edge", "definitions", "pkg/telemetry"}, centre...),
		},
		{
			// To whom people prove who they are: what the authorization server asks.
			name:     "identity providers",
			packages: []string{"pkg/oauth/oidc"},
			may:      append([]string{"pkg/oauth", "use cases"}, centre...),
		},
		{
			// The wire form of answers, which servers write and clients read.
			name:     "envelope",
			packages: []string{"pkg/envelope"},
			may:      centre,
		},
		{
			name:     "client",
			packages: []string{"pkg/client"},
			may:      append([]string{"catalogue", "envelope"}, centre...),
		},
		{
			// Signing this machine in to a control plane elsewhere.
			name:     "logins",
			packages: []string{"pkg/login"},
			may:      append([]string{"client", "pkg/config"}, centre...),
		},
		{
			// Workspaces on their way from one container to the next. Those who call
			// it hand in the directories, the place and the key.
			name:     "checkpoints",
			packages: []string{"pkg/checkpoint"},
			may:      centre,
		},
		{
			// What the two sides of a local run share: the files it lives in, and the
			// process that is first inside a sandbox.
			name:     "runs",
			packages: []string{"pkg/runner/spool", "pkg/runner/box"},
			may:      centre,
			within:   true,
		},
		{
			// What people and agents start must be small and quick: no cloud, no
			// database, no protocol library.
			name:     "programs",
			packages: []string{"pkg/agent", "pkg/agent/*", "pkg/supervisor", "pkg/supervisor/*", "pkg/gateway"},
			may:      append([]string{"catalogue", "client", "envelope", "runs", "checkpoints", "pkg/config"}, centre...),
			within:   true,
		},
		{
			// The modes of lazy-agent: it puts a supervisor together with git and the
			// sandbox of this machine.
			name:     "agent program",
			packages: []string{"pkg/agentcli"},
			// Its log lies where people read it, like that of the functions.
			may:  append([]string{"programs", "catalogue", "client", "envelope", "runs", "pkg/config", "pkg/telemetry", "pkg/git", "pkg/sandbox/*"}, centre...),
			also: []string{"github.com/google/jsonschema-go"},
		},
		{
			// What people type: small and quick to start, like the programs.
			name:     "commands",
			packages: []string{"pkg/cli", "pkg/demo"},
			may:      append([]string{"catalogue", "client", "logins", "pkg/config"}, centre...),
			within:   true,
		},
		{
			name:     "configuration",
			packages: []string{"pkg/config", "pkg/telemetry", "pkg/telemetry/*"},
			may:      append([]string{"pkg/telemetry"}, centre...),
		},
		{
			name:     "launcher",
			packages: []string{"pkg/bootstrap"},
		},
		{
			name:     "rules",
			packages: []string{"pkg/arch"},
		},
		{
			name:     "composition",
			packages: []string{"pkg/wire/*"},
			may: append([]string{
				"use cases", "catalogue", "adapters", "runs", "checkpoints", "forges", "edges", "identity providers", "client", "configuration", "definitions",
				"programs", "composition",
			}, centre...),
			anything: true,
		},
		{
			name:     "infrastructure",
			packages: []string{"infra", "infra/*"},
			may:      []string{"pkg/names"},
			also: []string{
				"github.com/aws/aws-cdk-go", "github.com/aws/constructs-go", "github.com/aws/jsii-runtime-go",
				"github.com/cdklabs/cdk-nag-go",
			},
		},
		{
			name:     "functions",
			packages: []string{"functions/*"},
			may:      []string{"composition", "configuration", "edges", "catalogue", "base"},
			also:     []string{"github.com/aws/aws-lambda-go"},
		},
		{
			name:     "lazy",
			packages: []string{"cmd/lazy"},
			may:      []string{"launcher"},
		},
		{
			// What doctor has look at an AWS account.
			name:     "lazy-aws",
			packages: []string{"cmd/lazy-aws"},
			may:      []string{"pkg/preflight"},
			also:     []string{"github.com/aws/aws-sdk-go-v2"},
		},
		{
			name:     "lazy-agent",
			packages: []string{"cmd/lazy-agent"},
			may:      []string{"programs", "agent program", "commands", "logins", "composition", "configuration", "launcher", "catalogue", "base"},
		},
		{
			// Commands of the build and scenarios on the emulators.
			name:     "integration",
			packages: []string{"integration", "integration/*", "integration/modelfake/serve", "integration/emulated/serve", "integration/images/build"},
			may: append([]string{
				"use cases", "catalogue", "adapters", "runs", "checkpoints", "envelope", "forges", "suites", "requirements", "edges", "identity providers", "client",
				"programs", "agent program", "commands", "logins", "configuration", "composition", "integration", "definitions",
			}, centre...),
			anything: true,
		},
	}
}

// sdks are the modules that one package may use for its technology. A module
// that is missing here is refused.
func sdks() map[string][]string {
	aws := []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"}
	return map[string][]string{
		"pkg/store/sqlite":      {"modernc.org/sqlite"},
		"pkg/store/dynamo":      aws,
		"pkg/engine/sfn":        aws,
		"pkg/runner/fargate":    aws,
		"pkg/preflight":         aws,
		"pkg/blob/s3":           aws,
		"pkg/secret/aws":        aws,
		"pkg/seal/kms":          aws,
		"pkg/bus/aws":           aws,
		"pkg/queue/sqs":         aws,
		"pkg/engine/local":      {"golang.org/x/sync"},
		"pkg/sandbox/bwrap":     {"golang.org/x/sys"},
		"pkg/runner/process":    {"golang.org/x/sys"},
		"pkg/runner/spool":      {"golang.org/x/sys"},
		"pkg/runner/box":        {"golang.org/x/sys"},
		"pkg/agent/command":     {"github.com/google/uuid"},
		"pkg/git":               {"golang.org/x/sys"},
		"pkg/blob/file":         {"golang.org/x/sys"},
		"pkg/forge/github":      {"github.com/google/go-github", "github.com/bradleyfalzon/ghinstallation"},
		"pkg/forge/gitlab":      {"github.com/xanzy/go-gitlab"},
		"pkg/rpc":               {"github.com/google/jsonschema-go"},
		"pkg/mcpserver":         {"github.com/modelcontextprotocol/go-sdk", "github.com/google/jsonschema-go"},
		"pkg/oauth/oidc":        {"golang.org/x/oauth2", "github.com/coreos/go-oidc"},
		"pkg/config":            {"github.com/pelletier/go-toml"},
		"pkg/telemetry/tracing": {"go.opentelemetry.io/otel"},
		"pkg/login":             {"github.com/zalando/go-keyring"},
		"pkg/edge/lambdahttp":   {"github.com/aws/aws-lambda-go"},
		"pkg/cli": {
			"github.com/spf13/cobra", "github.com/spf13/pflag", "charm.land/lipgloss", "charm.land/huh",
			"golang.org/x/term", "golang.org/x/sys", "github.com/pelletier/go-toml", "github.com/google/uuid",
		},
		"pkg/agent":      {"golang.org/x/sys", "github.com/creack/pty"},
		"pkg/supervisor": {"golang.org/x/sys", "golang.org/x/sync", "github.com/creack/pty"},
		"cmd/lazy-agent": {"github.com/spf13/cobra", "golang.org/x/term"},
	}
}

// exceptions are single arrows against the table, each with its reason.
func exceptions() map[string]string {
	return map[string]string{
		"pkg/supervisor -> pkg/git":              "the git broker is the only writer of refs, and it lives in the supervisor",
		"pkg/sandbox -> os/exec":                 "a rendered plan is a command, and the caller wires its pipes",
		"pkg/runner/process -> pkg/runner/spool": "the runner reads the files of a run",
		"pkg/runner/process -> pkg/runner/box":   "the runner ends what is left in a sandbox",
	}
}

// without lists what a program's whole import graph stays free of, because it
// costs start-up time or belongs to the other mode.
func without() map[string][]string {
	big := []string{"github.com/aws", "github.com/modelcontextprotocol/go-sdk", "modernc.org/sqlite"}
	return map[string][]string{
		"cmd/lazy-agent": {"github.com/aws"},
		"pkg/cli":        big,
		"pkg/agent":      big,
		"pkg/client":     big,
		"pkg/supervisor": big,
		"pkg/agentcli":   big,
		"pkg/gateway":    big,
		"pkg/op":         big,
	}
}

// clocks are the packages that may read the wall clock, sleep and read the
// environment. Everything else is handed time and settings.
func clocks() []string {
	return []string{
		"cmd/*", "functions/*", "pkg/wire/*", "integration", "integration/*", "integration/modelfake/serve", "integration/emulated/serve", "integration/images/build", "infra", "infra/*",
		"pkg/bootstrap", "pkg/agentcli", "pkg/wiretest", "pkg/sandbox/*", "pkg/runner/*", "pkg/git",
	}
}
