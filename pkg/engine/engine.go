// Package engine is the port to whatever runs the state machine definitions in
// statemachines/. Hosted it is AWS Step Functions, on a laptop the interpreter in
// engine/local; both run the very same files (SY-024). A step tries once;
// waiting, retrying and timing out live in the definition.
package engine

import (
	"context"
	"errors"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// State is where an execution stands.
type State string

// The states of an execution.
const (
	Running   State = "RUNNING"
	Succeeded State = "SUCCEEDED"
	Failed    State = "FAILED"
	TimedOut  State = "TIMED_OUT"
	Aborted   State = "ABORTED"
)

// Execution describes one run of a definition.
type Execution struct {
	Machine string
	Name    string
	State   State
	Input   []byte
	Output  []byte
	Error   string
	Cause   string
	Started time.Time
	Stopped time.Time
}

// Engine starts executions and answers their task tokens.
type Engine interface {
	// Start begins the execution name of machine. Starting it again with the same
	// input while it runs is a success; a closed name, or another input, answers
	// ErrNameUsed (SY-045).
	Start(ctx context.Context, machine, name string, input []byte) error
	// Describe answers ErrNoExecution for a name never started.
	Describe(ctx context.Context, machine, name string) (Execution, error)
	// Stop ends a running execution as Aborted; a closed one is left alone.
	Stop(ctx context.Context, machine, name, cause string) error
	// Succeed, Fail and Beat answer a task token. A token that is expired, unknown
	// or already answered gives ErrTokenGone.
	Succeed(ctx context.Context, token string, output []byte) error
	Fail(ctx context.Context, token, errorName, cause string) error
	Beat(ctx context.Context, token string) error
}

// The sentinels.
var (
	ErrNameUsed    = errors.New("engine: that execution name was used before")
	ErrNoExecution = errors.New("engine: no such execution")
	ErrTokenGone   = errors.New("engine: that task token is expired, unknown or answered")
)

// Step is the function behind every Task state: payload names the step and its
// version (WF-21). The error's name, which Retry and Catch match, is ErrorName.
type Step func(ctx context.Context, payload []byte) ([]byte, error)

// ErrorName is the name under which a definition sees err: "Lazy.<kind>", for
// example "Lazy.unavailable".
func ErrorName(err error) string { return "Lazy." + string(fault.KindOf(err)) }
