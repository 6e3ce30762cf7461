package kms_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/seal/kms"
	"github.com/lazyplane/lazyplane/pkg/seal/sealtest"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

func client(endpoint string) *awskms.Client {
	return awskms.NewFromConfig(moto.Config(endpoint), func(o *awskms.Options) { o.Retryer = aws.NopRetryer{} })
}

func table(t *testing.T) store.Store {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "lazy.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestKMS(t *testing.T) {
	api := client(moto.Start(t))
	made, err := api.CreateKey(t.Context(), &awskms.CreateKeyInput{})
	if err != nil {
		t.Fatal(err)
	}
	key := aws.ToString(made.KeyMetadata.Arn)
	t.Run("KeepsTheContract", func(t *testing.T) {
		req.Covers(t, "ID-031")
		sealtest.Run(t, func(t *testing.T) func() sealtest.Sealer {
			db := table(t)
			return func() sealtest.Sealer { return kms.New(api, key, db) }
		})
	})
	t.Run("TheTableHoldsNoKeyAndARowMovedToAnotherTenantOpensNothing", func(t *testing.T) {
		req.Covers(t, "ID-031", "P8")
		db := table(t)
		s := kms.New(api, key, db)
		sealed, err := s.Seal(t.Context(), "acme", "credential", []byte("canary"))
		if err != nil {
			t.Fatal(err)
		}
		it, err := db.Get(t.Context(), store.For("acme").DataKey())
		if err != nil || bytes.Contains(it.Doc, []byte("canary")) {
			t.Fatalf("the row is %s (%v)", it.Doc, err)
		}
		it.Key = store.For("other").DataKey()
		if err := db.Transact(t.Context(), store.Write{Act: store.Put, Item: it}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Open(t.Context(), "other", "credential", sealed); err == nil {
			t.Errorf("another tenant reads %q", got)
		}
	})
	t.Run("ADisabledKeyIsTheOperatorsMatterAndLosesNothing", func(t *testing.T) {
		db := table(t)
		sealed, err := kms.New(api, key, db).Seal(t.Context(), "acme", "credential", []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		// moto decrypts with a disabled key; KMS answers this.
		srv := refuse(t, 400, "DisabledException")
		_, err = kms.New(client(srv), key, db).Open(t.Context(), "acme", "credential", sealed)
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Of(err).Public, "disabled") || len(fault.Of(err).Next) == 0 {
			t.Errorf("got %v", err)
		}
		if got, err := kms.New(api, key, db).Open(t.Context(), "acme", "credential", sealed); err != nil || string(got) != "x" {
			t.Errorf("with the key enabled again: %q, %v", got, err)
		}
	})
}

// refuse is a key service that answers one error.
func refuse(t *testing.T, status int, code string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		io.WriteString(w, fmt.Sprintf(`{"__type":%q,"message":"secret-detail"}`, code))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestErrorsOfTheKeyServiceSayWhatACallerMayDo(t *testing.T) {
	for code, c := range map[string]struct {
		status int
		want   fault.Kind
	}{
		"ThrottlingException":      {400, fault.Unavailable},
		"KMSInternalException":     {500, fault.Unavailable},
		"AccessDeniedException":    {400, fault.Unavailable},
		"NotFoundException":        {400, fault.Unavailable},
		"KMSInvalidStateException": {400, fault.Unavailable},
		"ExpiredTokenException":    {400, fault.Unavailable},
		"InvalidKeyUsageException": {400, fault.Internal},
	} {
		_, err := kms.New(client(refuse(t, c.status, code)), "key", table(t)).Seal(t.Context(), "acme", "credential", []byte("x"))
		if fault.KindOf(err) != c.want || strings.Contains(fault.Of(err).Public, "secret-detail") {
			t.Errorf("%s: %v, want a fault of kind %s", code, err, c.want)
		}
	}
}
