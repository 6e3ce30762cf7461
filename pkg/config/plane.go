package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Plane is what a running control plane says about itself in plane.json.
type Plane struct {
	URL     string    `json:"url"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Project string    `json:"project"`
	Root    string    `json:"root"`
	// HostProcess says that agents run without a sandbox.
	HostProcess bool `json:"host_process,omitempty"`
}

// ReadPlane returns the contents of plane.json; ok is false when there is none.
// A file that cannot be understood counts as none: whoever wrote it is replaced.
func ReadPlane(path string) (p Plane, ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("read %s: %w", path, err)
	}
	understood := json.Unmarshal(b, &p) == nil && p.URL != ""
	if !understood {
		p = Plane{}
	}
	return p, understood, nil
}

// WritePlane stores plane.json whole or not at all, readable by its owner only.
func WritePlane(path string, p Plane) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return WritePrivate(path, append(b, '\n'))
}

// ReadToken returns the credential in an owner.token file.
func ReadToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// WritePrivate replaces a file at once with mode 0600, and makes its directory
// with mode 0700.
func WritePrivate(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make %s: %w", filepath.Dir(path), err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // created 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
