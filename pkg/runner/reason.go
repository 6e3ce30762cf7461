package runner

import "fmt"

// Reason words an exit code the same way wherever a run executed (CR-002).
func Reason(code int) string {
	switch {
	case code == 0:
		return "ended normally (exit code 0)"
	case code == 137:
		return "OOM killed or SIGKILL (exit code 137)"
	case code == 143:
		return "terminated by SIGTERM (exit code 143)"
	case code == 139:
		return "segmentation fault (exit code 139)"
	case code == 134:
		return "aborted (exit code 134)"
	case code == 126:
		return "the command cannot be executed (exit code 126)"
	case code == 127:
		return "the command was not found (exit code 127)"
	case code > 128 && code < 128+65:
		return fmt.Sprintf("ended by signal %d (exit code %d)", code-128, code)
	case code < 0:
		return "gone without an exit code"
	}
	return fmt.Sprintf("exit code %d", code)
}
