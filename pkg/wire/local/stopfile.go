package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
)

// stopFile is the ground stop of a laptop that a command writes where no control
// plane answers.
type stopFile struct{ path string }

var _ app.StopFile = stopFile{}

func (f stopFile) Engaged() (string, time.Time, bool, error) {
	b, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", time.Time{}, false, nil
	}
	if err != nil {
		return "", time.Time{}, false, fmt.Errorf("read ground stop: %w", err)
	}
	var v struct {
		Reason string    `json:"reason"`
		At     time.Time `json:"at"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return "", time.Time{}, false, fmt.Errorf("read ground stop: %w", err)
	}
	return v.Reason, v.At, true, nil
}

func (f stopFile) Clear() error {
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove ground stop: %w", err)
	}
	return nil
}
