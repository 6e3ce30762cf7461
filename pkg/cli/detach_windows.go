package cli

import "errors"

// DetachProcess refuses: on Windows the control plane runs inside WSL 2, where
// a lazy of that system starts it.
func DetachProcess(_, _ []string, _, _ string) error {
	return errors.New("the control plane runs inside WSL 2; run lazy there, or set LAZY_TARGET to one that runs")
}
