package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// settings is what a deployment may choose, with -c name=value or in cdk.json.
type settings struct {
	Stage       string // suffix of every name; "prod" by default
	Domain      string // the deployment's own host name, "" for CloudFront's
	Certificate string // ARN in us-east-1 of a certificate for Domain
	ZoneID      string // hosted zone that gets the record of Domain, "" for none
	ZoneName    string
	AlarmEmail  string  // who is told of alarms, "" for nobody
	Budget      float64 // dollars a month at which the budget alarm goes
	Supervisor  string  // the supervisor's image by digest, "" before one is pushed
	Runtime     string  // the image agents run in where a project names none, likewise
	Git         string  // folder with bin/git, which functions on arm64 run; "" before there is one
	Version     string  // what the deployment calls itself
	OTLP        string  // address that traces are sent to, "" for none
	Dashboard   bool
	Reserve     bool // reserve concurrency; an account of ten cannot
	Destroy     bool // removing the stack removes the data

	Account string // "" for a template that fits every account
	Region  string
	Root    string // of the module
	Assets  string // folder with <surface>/bootstrap for every surface
}

func (s settings) prefix() string { return "lazyplane-" + s.Stage }

var (
	stageName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)
	pinned    = regexp.MustCompile(`^[a-z0-9][a-zA-Z0-9._:/-]*@sha256:[0-9a-f]{64}$`)
)

// load reads the settings and reports every problem at once.
func load(node constructs.Node) (settings, error) {
	var wrong []error
	get := func(name, preset string) string {
		v := node.TryGetContext(jsii.String(name))
		if v == nil {
			return preset
		}
		return fmt.Sprint(v)
	}
	flag := func(name string, preset bool) bool {
		v := get(name, strconv.FormatBool(preset))
		b, err := strconv.ParseBool(v)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s is true or false, not %q", name, v))
		}
		return b
	}
	s := settings{
		Stage: get("stage", "prod"), Domain: get("domain", ""), Certificate: get("certificate", ""),
		ZoneID: get("zoneId", ""), ZoneName: get("zoneName", ""), AlarmEmail: get("alarmEmail", ""),
		Supervisor: get("supervisorImage", ""), Runtime: get("runtimeImage", ""), Git: get("git", ""), Version: get("version", "unversioned"), OTLP: get("otlp", ""),
		Dashboard: flag("dashboard", true), Reserve: flag("reserve", true), Destroy: flag("destroy", false),
	}
	budget := get("budget", "25")
	var err error
	if s.Budget, err = strconv.ParseFloat(budget, 64); err != nil || s.Budget <= 0 {
		wrong = append(wrong, fmt.Errorf("budget is a number of dollars, not %q", budget))
	}
	if !stageName.MatchString(s.Stage) {
		wrong = append(wrong, fmt.Errorf("stage %q is not up to 16 lower-case letters and digits", s.Stage))
	}
	for name, image := range map[string]string{"supervisorImage": s.Supervisor, "runtimeImage": s.Runtime} {
		if image != "" && !pinned.MatchString(image) {
			wrong = append(wrong, fmt.Errorf("%s %q does not name an image by its digest, as repository@sha256:…", name, image))
		}
	}
	if s.Git != "" {
		if fi, err := os.Stat(filepath.Join(s.Git, "bin", "git")); err != nil || fi.Mode()&0o111 == 0 {
			wrong = append(wrong, fmt.Errorf("git %q is not a folder with a program bin/git; see docs/deploy.md", s.Git))
		}
	}
	if (s.Supervisor == "") != (s.Runtime == "") {
		wrong = append(wrong, errors.New("supervisorImage and runtimeImage are given together"))
	}
	if (s.Domain == "") != (s.Certificate == "") {
		wrong = append(wrong, errors.New("domain and certificate are given together"))
	}
	if s.Certificate != "" && !strings.HasPrefix(s.Certificate, "arn:aws:acm:us-east-1:") {
		wrong = append(wrong, errors.New("the certificate must be in us-east-1, where CloudFront looks for it"))
	}
	if (s.ZoneID == "") != (s.ZoneName == "") || s.ZoneID != "" && s.Domain == "" {
		wrong = append(wrong, errors.New("zoneId and zoneName are given together, and with domain"))
	}
	if len(wrong) > 0 {
		return settings{}, fmt.Errorf("settings: %w", errors.Join(wrong...))
	}
	return s, nil
}
