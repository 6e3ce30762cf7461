// Package aws reads secrets that people put in by hand from AWS Secrets Manager.
package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/secret"
)

// Source is the secrets of an account, called by their names or ARNs.
type Source struct{ api *secretsmanager.Client }

var _ secret.Source = (*Source)(nil)

// New returns the source.
func New(api *secretsmanager.Client) *Source { return &Source{api: api} }

// stage is what the service calls a version.
func stage(v secret.Version) string {
	if v == secret.Previous {
		return "AWSPREVIOUS"
	}
	return "AWSCURRENT"
}

// Read implements secret.Source.
func (s *Source) Read(ctx context.Context, name string, v secret.Version) (secret.Value, error) {
	out, err := s.api.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name, VersionStage: aws.String(stage(v))})
	if err != nil {
		return secret.Value{}, explain(err, bare(name), v)
	}
	if out.SecretBinary != nil {
		return secret.NewValue(out.SecretBinary), nil
	}
	return secret.NewValue([]byte(aws.ToString(out.SecretString))), nil
}

// bare is a secret's name without the account and Region of its ARN.
func bare(name string) string {
	if parts := strings.SplitN(name, ":", 7); len(parts) == 7 {
		return parts[6]
	}
	return name
}

// explain says what is in the way and what to do about it. The service quotes no
// value in its errors; of what it says, people see nothing either way.
func explain(err error, name string, v secret.Version) error {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		// The same code stands for a secret that is not there and one without a value.
		err = errors.Join(secret.ErrNoVersion, err)
		if v == secret.Previous {
			return fault.Wrap(fault.Unavailable, err, "the secret %s was never replaced, so nothing was in force before", name)
		}
		return fault.Wrap(fault.Unavailable, err, "nothing was put into the secret %s yet", name).
			WithNext("Put it in: aws secretsmanager put-secret-value --secret-id " + name + " --secret-string file://FILE").
			WithNext("If there is no such secret, the stack is not deployed whole: deploy it again.")
	}
	if _, ok := errors.AsType[*types.InvalidRequestException](err); ok {
		return fault.Wrap(fault.Unavailable, err, "the secret %s is marked for deletion", name).
			WithNext("Bring it back: aws secretsmanager restore-secret --secret-id " + name)
	}
	if _, ok := errors.AsType[*types.DecryptionFailure](err); ok {
		return fault.Wrap(fault.Unavailable, err, "the secret %s cannot be decrypted", name).
			WithNext("Look whether the KMS key it is encrypted with is there and may be used.")
	}
	if e := fault.Deployment(err, "the secret "+name); e != nil {
		return e
	}
	for _, r := range retry.DefaultRetryables {
		if r.IsErrorRetryable(err) == aws.TrueTernary {
			return away(err, name)
		}
	}
	if _, ok := errors.AsType[*types.InternalServiceError](err); ok {
		return away(err, name)
	}
	return fmt.Errorf("read secret %s: %w", name, err)
}

func away(err error, name string) error {
	return fault.Wrap(fault.Unavailable, errors.Join(secret.ErrAway, err), "the secret %s cannot be read at the moment", name).
		WithNext("Try again; it is read anew each time.")
}
