package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

var keyShape = pattern.New(`^[A-Za-z0-9._:-]{1,128}$`)

// Call builds the call of an authenticated request from its headers: the
// idempotency key, drawn here when the client sent none (RP-027), how long the
// client wants to be held, and the id of the operation it may begin, which is
// announced in the answer's header before any work (RP-007).
func (x *Exchange) Call() (app.Call, error) {
	c := app.Call{
		Who: x.Who, Key: x.R.Header.Get(names.HeaderIdempotency), Operation: x.base.NewID(), Hold: x.base.HopOr(),
	}
	if c.Key == "" {
		c.Key = x.base.NewID()
	} else if !keyShape.MatchString(c.Key) {
		return c, header(names.HeaderIdempotency, "1 to 128 letters, digits and . _ : -")
	}
	if v := x.R.Header.Get(names.HeaderHold); v != "" {
		ms, err := strconv.ParseInt(v, 10, 64)
		if err != nil || ms < 0 {
			return c, header(names.HeaderHold, "milliseconds")
		}
		most := min(ms, x.base.HopOr().Milliseconds())
		c.Hold = max(time.Duration(most)*time.Millisecond, time.Millisecond)
	}
	c.Operation = id.Keyed(c.Operation, c.Who.Hash, c.Key)
	x.W.Header().Set(names.HeaderOperation, c.Operation)
	x.Note("operation", c.Operation)
	return c, nil
}

// header is the refusal of a header that cannot be read. Its value is not
// repeated: it may have been meant for another one.
func header(name, want string) error {
	return op.Invalid(name, want, "something else")
}

// errMore means that a body goes on after its one value.
var errMore = errors.New("edge: more than one JSON value")

// DecodeOne reads exactly one JSON value with no field that v lacks: a caller
// that says more than is understood must be told, not half obeyed.
func DecodeOne(body []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	return whole(dec, v)
}

// DecodeKnown reads exactly one JSON value and passes over what v lacks. It is for
// what another program of this product sends, which may be of a later version: a
// deploy changes one after the other, and can be taken back in the middle of a
// turn.
func DecodeKnown(body []byte, v any) error { return whole(json.NewDecoder(bytes.NewReader(body)), v) }

func whole(dec *json.Decoder, v any) error {
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errMore
	}
	return nil
}
