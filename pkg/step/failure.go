package step

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Failure is an error as a definition sees it: the name that Retry and Catch
// match, and the text that may be shown.
func Failure(err error) (name, text string) { return engine.ErrorName(err), fault.Of(err).Public }

// Logged writes one line for each step that do runs: ids and outcome, never what
// a payload carries beside them.
func Logged(do engine.Step, log *slog.Logger, now func() time.Time) engine.Step {
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		began := now()
		out, err := do(ctx, payload)
		var p app.Payload
		_ = json.Unmarshal(payload, &p) // do has said what is wrong with it
		attrs := []slog.Attr{
			slog.String("step", p.Step), slog.String("tenant", p.Tenant), slog.String("turn", p.Turn), slog.Int("n", p.N),
			slog.Duration("took", now().Sub(began)),
		}
		level := slog.LevelInfo
		if err != nil {
			level = slog.LevelError
			attrs = append(attrs, slog.String("code", fault.Code(err)), slog.String("cause", err.Error()))
		}
		log.LogAttrs(ctx, level, "step", attrs...)
		return out, err
	}
}
