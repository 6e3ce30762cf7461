package app

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/secret"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

// row is the kind of rows whose documents are a T.
func row[T any](name string) wiretest.Kind {
	return wiretest.Of(name, func(b []byte) (T, error) {
		return decode[T](store.Item{Doc: b, Attr: store.Attr{"schema": int64(schema)}})
	})
}

// kept are the types that lie in the store, by the name that each row carries.
func kept() []wiretest.Kind {
	return []wiretest.Kind{
		row[task.Task]("task"), row[Live]("live"), row[turn.Turn]("turn"), row[turn.Run]("run"), row[turn.Response]("response"),
		row[opRow]("operation"), row[Job]("job"), row[Job]("notice"), row[body]("body"), row[task.History]("history"),
		row[raise.Comment]("comment"), row[raise.Item]("raised"), row[raise.Entry]("journal"), row[CommitRow]("commit"),
		row[reportRow]("report"), row[pointer]("code"), row[pointer]("short"), row[confirmation]("confirmation"),
		row[BuilderSession]("builder-session"), row[gateRow]("gates"), row[protectionRow]("protection"), row[vaultKey]("vault"), row[identity.Token]("token"),
		row[identity.Token]("token-of"), row[Pass]("pass"), row[Idem]("idem"), row[model.Reading]("reading"),
		row[Conversation]("conversation"), row[ScratchFile]("scratch-file"), row[ResumeIntent]("resume-intent"),
		row[Project]("project"), row[secret.Credential]("model-credential"), row[Transfer]("transfer"),
		row[Member]("member"), row[Entry]("where"), row[Family]("family"), row[OAuthClient]("client"), row[authCode]("auth-code"),
		row[Device]("device"), row[deviceRef]("user-code"), row[Flow]("flow"), row[Browser]("browser"), row[Browser]("link"),
	}
}

func TestRowsAreOnlyAddedToAndReadWhatTheyDoNotKnow(t *testing.T) {
	wiretest.Keep(t, filepath.Join("testdata", "rows"), kept()...)
}

func TestWhatAFlowHandsToAStepIsOnlyAddedTo(t *testing.T) {
	req.Covers(t, "SY-042")
	wiretest.Keep(t, filepath.Join("testdata", "payload"), wiretest.Of[Payload]("payload", nil))
}

var putCall = regexp.MustCompile(`\b(?:put|grantRow)\([^"\n]*"([a-z-]+)"`)

// Every row that is written by name is among those that are kept.
func TestEveryRowIsKept(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range kept() {
		names = append(names, k.Name)
	}
	found := map[string]bool{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range putCall.FindAllStringSubmatch(string(b), -1) {
			found[m[1]] = true
		}
	}
	for name := range found {
		// A tenant's row is never read, nor is the document of a counter.
		if name != "tenant" && name != "rate" && !slices.Contains(names, name) {
			t.Errorf("rows called %q are not kept", name)
		}
	}
	if len(found) < 25 {
		t.Errorf("only %d kinds of rows were found", len(found))
	}
}
