package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

type service string

func (s service) Error() string { return "secret-detail of " + string(s) }

func (s service) ErrorCode() string { return string(s) }

func TestAServiceThatRefusesTheDeploymentIsNamedAndAskedAgain(t *testing.T) {
	for code, words := range map[service]string{
		"ResourceNotFoundException": "the table is not there", "AccessDenied": "may not use the table",
		"ExpiredTokenException": "credentials for the table", "DisabledException": "the table is disabled",
	} {
		got := fault.Deployment(fmt.Errorf("get: %w", code), "the table")
		if got == nil || !strings.Contains(got.Public, words) || strings.Contains(got.Public, "secret") {
			t.Fatalf("%s: %v", code, got)
		}
		if fault.HTTP(got) != 503 || !fault.Retryable(got) || len(got.Next) == 0 || !errors.Is(got, code) {
			t.Errorf("%s is %d: %+v", code, fault.HTTP(got), got)
		}
	}
	for _, err := range []error{nil, errors.New("x"), service("ValidationException"), service("ThrottlingException")} {
		if got := fault.Deployment(err, "the table"); got != nil {
			t.Errorf("%v is %v", err, got)
		}
	}
}
