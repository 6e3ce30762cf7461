package wiretest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/wiretest"
)

func TestWhatIsLostIsFoundAndWhatIsAddedIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		now  string
		want []string
	}{
		"same":    {`{"a":{"b":[1,"x"]},"n":12345678901234567890}`, nil},
		"added":   {`{"a":{"b":[1,"x"],"c":2},"n":12345678901234567890,"z":null}`, nil},
		"removed": {`{"a":{},"n":12345678901234567890}`, []string{".a.b is not there"}},
		"retyped": {`{"a":{"b":[1,7]},"n":12345678901234567890}`, []string{".a.b[1] was x and is 7"}},
		"shorter": {`{"a":{"b":[1]},"n":12345678901234567890}`, []string{".a.b was [1 x] and is [1]"}},
		"rounded": {`{"a":{"b":[1,"x"]},"n":12345678901234567000}`, []string{".n was 12345678901234567890 and is 12345678901234567000"}},
		"text":    {`{"a":"b","n":12345678901234567890}`, []string{".a was an object and is b"}},
	} {
		got, err := wiretest.Lost([]byte(`{"a":{"b":[1,"x"]},"n":12345678901234567890}`), []byte(c.now))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

type inner struct {
	N int `json:"n"`
}

// document is the type whose file is kept.
type document struct {
	A string            `json:"a"`
	I *inner            `json:"i,omitempty"`
	L []inner           `json:"l,omitempty"`
	M map[string]string `json:"m,omitempty"`
	T time.Time         `json:"t"`
	R json.RawMessage   `json:"r"`
}

func strict(b []byte) (v document, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return v, d.Decode(&v)
}

// demanding refuses what was written before a field was there.
func demanding(b []byte) (v document, err error) {
	if err = json.Unmarshal(b, &v); err == nil && v.I == nil {
		err = errors.New("i is missing")
	}
	return v, err
}

func TestEveryChangeThatBreaksAnotherVersionIsRefused(t *testing.T) {
	const dir = "testdata"
	wiretest.Keep(t, dir, wiretest.Of[document]("kept", nil))
	for name, k := range map[string]wiretest.Kind{
		"removed": wiretest.Of[struct {
			A string `json:"a"`
		}]("kept", nil),
		"renamed": wiretest.Of[struct {
			A string            `json:"b"`
			I *inner            `json:"i,omitempty"`
			L []inner           `json:"l,omitempty"`
			M map[string]string `json:"m,omitempty"`
			T time.Time         `json:"t"`
			R json.RawMessage   `json:"r"`
		}]("kept", nil),
		"retyped": wiretest.Of[struct {
			document
			A int `json:"a"`
		}]("kept", nil),
		"strict":    wiretest.Of("kept", strict),
		"demanding": wiretest.Of("kept", demanding),
		"without":   wiretest.Of[document]("none", nil),
	} {
		if len(wiretest.Problems(dir, k)) == 0 {
			t.Errorf("a type that is %s passes", name)
		}
	}
	if got := wiretest.Problems(dir, wiretest.Of[struct {
		document
		Z bool `json:"z"`
	}]("kept", nil)); len(got) > 0 {
		t.Errorf("a field that was added is a problem: %q", got)
	}
}
