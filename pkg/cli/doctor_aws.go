package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// awsLook says which account doctor looks at.
type awsLook struct {
	on            bool
	region, stage string
}

// awsHelper is the program that knows the cloud. This one does not, so that it
// stays small and quick.
const awsHelper = "lazy-aws"

// checkAWS has the helper look at the account.
func (e *Env) checkAWS(ctx context.Context, l awsLook) []check {
	helper := filepath.Join(filepath.Dir(e.Self), awsHelper)
	if _, err := os.Stat(helper); err != nil {
		if helper, err = e.LookPath(awsHelper); err != nil {
			return []check{{
				"aws", "fail", awsHelper + " is neither beside lazy nor on the path, and it alone knows AWS",
				"In the source: go install ./cmd/" + awsHelper,
			}}
		}
	}
	argv := []string{helper, "--stage", l.stage}
	if l.region != "" {
		argv = append(argv, "--region", l.region)
	}
	out, err := e.Output(ctx, e.Dir, argv...)
	if err != nil {
		return []check{{"aws", "fail", fault.Of(err).Public + ": " + cause(err).Error(), "Check your AWS configuration: ~/.aws/config, AWS_PROFILE."}}
	}
	var found struct {
		Checks []check `json:"checks"`
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Checks) == 0 {
		return []check{{"aws", "fail", awsHelper + " says nothing that can be read", "Install the one of this version: go install ./cmd/" + awsHelper}}
	}
	return found.Checks
}
