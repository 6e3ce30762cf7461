package main

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
)

func TestSettingsSayAllThatIsWrongAtOnce(t *testing.T) {
	_ = deployed(t) // for its look at Node
	app := awscdk.NewApp(&awscdk.AppProps{Context: &map[string]any{
		"stage": "Prod!", "budget": "much", "destroy": "maybe", "domain": "lazy.example.com", "supervisorImage": "lazy:latest",
		"zoneId": "Z1", "git": t.TempDir(),
	}})
	_, err := load(app.Node())
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"stage", "budget", "destroy", "certificate", "supervisorImage", "runtimeImage", "zoneName", "bin/git"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing is said about %s: %v", want, err)
		}
	}
	got, err := load(awscdk.NewApp(nil).Node())
	if err != nil || got.Stage != "prod" || got.Budget != 25 || !got.Reserve || !got.Dashboard || got.Destroy {
		t.Errorf("%+v, %v", got, err)
	}
}
