//go:build !linux

package bwrap

import (
	"errors"
	"os"
)

func sealed(string, string) (*os.File, error) {
	return nil, errors.New("bubblewrap runs on Linux only")
}
