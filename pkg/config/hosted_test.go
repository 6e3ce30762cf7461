package config_test

import (
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/config"
)

func TestAFunctionIsToldEverythingItLacksAtOnce(t *testing.T) {
	env := map[string]string{"LAZY_RUNNER": "process", "LAZY_TABLE": "t"}
	_, err := config.LoadHosted(func(name string) string { return env[name] })
	if err == nil {
		t.Fatal("an empty environment is taken")
	}
	for _, name := range []string{
		"AWS_REGION", "LAZY_BUCKET", "LAZY_KEY ", "LAZY_MACHINE_TURN", "LAZY_MACHINE_RECOVERY", "LAZY_MACHINE_ACCEPT",
		"LAZY_STATE", "LAZY_AGENT", "LAZY_URL",
	} {
		if !strings.Contains(err.Error()+" ", name) {
			t.Errorf("%s is not named by %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "LAZY_TABLE") {
		t.Errorf("what is there is missed: %v", err)
	}
}

func TestAFunctionsEnvironmentIsRead(t *testing.T) {
	env := map[string]string{
		"AWS_REGION": "r", "LAZY_TABLE": "t", "LAZY_BUCKET": "b", "LAZY_KEY": "k", "LAZY_URL": "https://x/",
		"LAZY_MACHINE_TURN": "1", "LAZY_MACHINE_RECOVERY": "2", "LAZY_MACHINE_ACCEPT": "3",
	}
	h, err := config.LoadHosted(func(name string) string { return env[name] })
	if err != nil || h.URL != "https://x" || h.Flows["accept"] != "3" || h.Process != nil {
		t.Errorf("%+v, %v", h, err)
	}
	env["LAZY_RUNNER"] = "docker"
	if _, err := config.LoadHosted(func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), "docker") {
		t.Errorf("an unknown runner: %v", err)
	}
}
