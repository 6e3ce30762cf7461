// Package asl reads state machine definitions in the Amazon States Language,
// limited to the closed subset that the laptop's interpreter and AWS Step
// Functions run identically (SY-024): JSONPath references, Task on lambda:invoke
// with or without a task token, Choice, Wait, Pass, Succeed and Fail. Whatever is
// outside it is a load error that names its path, so a definition that one engine
// would read differently never starts.
package asl

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Type is the type of a state. The set is closed.
type Type string

// The state types.
const (
	Task    Type = "Task"
	Choice  Type = "Choice"
	Wait    Type = "Wait"
	Pass    Type = "Pass"
	Succeed Type = "Succeed"
	Fail    Type = "Fail"
)

// The two resources of a Task.
const (
	Invoke      = "arn:aws:states:::lambda:invoke"
	InvokeToken = "arn:aws:states:::lambda:invoke.waitForTaskToken"
)

// The reserved error names that definitions may match or engines report.
const (
	ErrAll       = "States.ALL"
	ErrTask      = "States.TaskFailed"
	ErrTimeout   = "States.Timeout"
	ErrHeartbeat = "States.HeartbeatTimeout"
	ErrRuntime   = "States.Runtime"
	ErrTooLarge  = "States.DataLimitExceeded"
)

// MaxData is the most bytes of JSON an execution may carry between two states.
const MaxData = 256 << 10

// Machine is one loaded definition. It is never changed after Load.
type Machine struct {
	Name    string
	Comment string
	StartAt string
	Timeout time.Duration // 0 when the definition sets none
	States  map[string]*State
	Order   []string // the states' names in the order of the file
	// Source is the definition's text with every substitution made, so that
	// loading it again needs nothing else; Digest names it.
	Source []byte
	Digest string
}

// State is one state of a machine. Which fields are set depends on its type.
type State struct {
	Name    string
	Type    Type
	Comment string
	Next    string // "" when End
	End     bool

	// Task
	Token     bool // waits for a task token
	Step      string
	Timeout   time.Duration
	Heartbeat time.Duration
	Retry     []Retrier
	Catch     []Catcher

	// Task and Pass
	Parameters Template // nil when absent
	Selector   Template // Task's ResultSelector, nil when absent
	ResultPath Path
	Result     Template // Pass; nil when absent

	// Choice
	Rules   []Rule
	Default string

	// Wait: exactly one of the three
	Wait          time.Duration // Seconds
	SecondsPath   *Path
	TimestampPath *Path

	// Fail
	Error string
	Cause string
}

// Retrier is one member of Retry.
type Retrier struct {
	Errors   []string
	Interval time.Duration
	Max      int
	Backoff  float64
	MaxDelay time.Duration // 0 when there is no limit
}

// Delay is the pause before the attempt that follows n earlier retries.
func (r Retrier) Delay(n int) time.Duration {
	d := float64(r.Interval)
	for range n {
		d *= r.Backoff
		if r.MaxDelay > 0 && d >= float64(r.MaxDelay) {
			return r.MaxDelay
		}
	}
	return time.Duration(d)
}

// Catcher is one member of Catch.
type Catcher struct {
	Errors     []string
	Next       string
	ResultPath Path
}

// Matches reports whether an ErrorEquals list covers the error name. States.ALL
// is not allowed to hide a fault of the definition itself (States.Runtime) or an
// oversized result, and States.TaskFailed covers every name that is not the
// engine's own, as on AWS.
func Matches(equals []string, name string) bool {
	for _, e := range equals {
		switch e {
		case name:
			return true
		case ErrAll:
			if name != ErrRuntime && name != ErrTooLarge {
				return true
			}
		case ErrTask:
			if !strings.HasPrefix(name, "States.") {
				return true
			}
		}
	}
	return false
}

// Terminal reports whether the execution ends in this state.
func (s *State) Terminal() bool { return s.Type == Succeed || s.Type == Fail || s.End }

// Steps lists the step names the definition's tasks call, in the order of the
// file and without repeats, so that a test can compare them with the step table
// (SY-042).
func Steps(m *Machine) []string {
	var out []string
	for _, name := range m.Order {
		if s := m.States[name]; s.Type == Task && !slices.Contains(out, s.Step) {
			out = append(out, s.Step)
		}
	}
	return out
}

var substitution = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{([^}]*)\}`) })

// Load reads one definition. name is the machine's name and appears in every
// error; values replaces ${Key} in the text, as the deployment's substitutions
// do. All problems are reported at once, each with its path.
func Load(name string, src []byte, values map[string]string) (*Machine, error) {
	text, err := substitute(src, values)
	if err != nil {
		return nil, fmt.Errorf("load definition %s: %w", name, err)
	}
	root, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("load definition %s: %w", name, err)
	}
	l := &loader{}
	m := l.machine(root)
	if len(l.problems) == 0 {
		l.check(m)
	}
	if len(l.problems) > 0 {
		return nil, fmt.Errorf("load definition %s: %w", name, errors.Join(l.problems...))
	}
	sum := sha256.Sum256(text)
	m.Name, m.Source, m.Digest = name, text, hex.EncodeToString(sum[:])
	return m, nil
}

func substitute(src []byte, values map[string]string) ([]byte, error) {
	var missing []error
	out := substitution().ReplaceAllFunc(src, func(found []byte) []byte {
		key := string(found[2 : len(found)-1])
		v, ok := values[key]
		if !ok {
			missing = append(missing, fmt.Errorf("no value is given for ${%s}", key))
			return found
		}
		quoted, err := json.Marshal(v)
		if err != nil {
			missing = append(missing, fmt.Errorf("quote the value of ${%s}: %w", key, err))
			return found
		}
		return quoted[1 : len(quoted)-1]
	})
	return out, errors.Join(missing...)
}
