package aws_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/secret"
	secretaws "github.com/lazyplane/lazyplane/pkg/secret/aws"
	"github.com/lazyplane/lazyplane/pkg/secret/secrettest"
)

func TestTheContract(t *testing.T) {
	api := secretsmanager.NewFromConfig(moto.Config(moto.Start(t)))
	n := 0
	fixture := func(src secret.Source) secrettest.Fixture {
		return secrettest.Fixture{
			Source: src,
			Make: func(t *testing.T) string {
				t.Helper()
				n++
				out, err := api.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: aws.String(fmt.Sprintf("lazyplane/s%d", n))})
				if err != nil {
					t.Fatal(err)
				}
				return *out.ARN
			},
			Put: func(t *testing.T, name string, value []byte) {
				t.Helper()
				in := &secretsmanager.PutSecretValueInput{SecretId: &name, SecretBinary: value}
				if !strings.ContainsRune(string(value), '\x00') { // as people put it in
					in.SecretBinary, in.SecretString = nil, aws.String(string(value))
				}
				if _, err := api.PutSecretValue(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			},
		}
	}
	t.Run("bare", func(t *testing.T) {
		secrettest.Run(t, func(*testing.T) secrettest.Fixture { return fixture(secretaws.New(api)) })
	})
	t.Run("cached", func(t *testing.T) {
		secrettest.Run(t, func(*testing.T) secrettest.Fixture { return fixture(secret.NewCache(secretaws.New(api), time.Now)) })
	})
}

func TestEveryReasonIsTypedAndSaysWhatToDo(t *testing.T) {
	const arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:lazyplane-prod/forge-app-AbCdEf"
	for code, want := range map[string]string{
		"AccessDeniedException": "may not use", "ExpiredTokenException": "not accepted any more", "DecryptionFailure": "cannot be decrypted", "InvalidRequestException": "marked for deletion",
		"ThrottlingException": "at the moment", "InternalServiceError": "at the moment", "ResourceNotFoundException": "nothing was put",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"%s","message":"m"}`, code)
		}))
		api := secretsmanager.NewFromConfig(moto.Config(srv.URL), func(o *secretsmanager.Options) { o.Retryer = aws.NopRetryer{} })
		_, err := secretaws.New(api).Read(t.Context(), arn, secret.Current)
		said := fault.Of(err)
		if said.Kind != fault.Unavailable || !strings.Contains(said.Public, want) || len(said.Next) == 0 {
			t.Errorf("%s: %q, next %v", code, said.Public, said.Next)
		}
		if strings.Contains(said.Public, "123456789012") || !strings.Contains(said.Public, "lazyplane-prod/forge-app") {
			t.Errorf("%s says %q", code, said.Public)
		}
		srv.Close()
	}
}
