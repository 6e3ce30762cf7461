// Package moto starts the AWS emulator moto for a test: serially, so that
// conditional writes race as they do on DynamoDB, or with Step Functions that
// run definitions and reach real code. See the scripts for what they mend.
package moto

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// Region is the region of everything in an emulator.
const Region = "eu-west-1"

// patience bounds the start of an emulator, which imports most of Python.
const patience = 2 * time.Minute

//go:embed *.py
var scripts embed.FS

// ErrMissing means that moto is not installed.
var ErrMissing = errors.New("moto is not installed (pip install 'moto[server]==5.2.*')")

// Start runs a serial emulator, or the named script with its arguments, until
// the end of the test and returns the URL of its endpoint. Where moto is not
// installed the test is skipped, unless CI=true, which makes that a failure.
func Start(t testing.TB, script ...string) string {
	t.Helper()
	endpoint, stop, err := Run(t.Context(), t.TempDir(), script...)
	if errors.Is(err, ErrMissing) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("moto is needed here: %v", err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("start moto: %v", err)
	}
	t.Cleanup(stop)
	return endpoint
}

// Run is Start outside of tests. It keeps its scripts in dir; stop ends the
// emulator, which also ends with this process.
func Run(ctx context.Context, dir string, script ...string) (endpoint string, stop func(), err error) {
	if len(script) == 0 {
		script = []string{"serial.py"}
	}
	python, err := interpreter(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err := os.CopyFS(dir, scripts); err != nil {
		return "", nil, err
	}
	return run(python, append([]string{filepath.Join(dir, script[0])}, script[1:]...))
}

// StartFlows runs an emulator whose Step Functions post the payload of each
// lambda:invoke to invokeURL/NAME and take the reply's body as the result.
func StartFlows(t testing.TB, invokeURL string) string {
	t.Helper()
	return Start(t, "flows.py", invokeURL)
}

// Config is the SDK configuration that reaches an emulator.
func Config(endpoint string) aws.Config {
	return aws.Config{
		Region:       Region,
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   &http.Client{Transport: ownBody{http.DefaultTransport}},
	}
}

// ownBody sends each request with a body of its own. The SDK closes a request's
// body as soon as it has the head of the answer; from a server as near as this
// one that can be while net/http still reads the body's end, which then fails the
// request and loses about one answer in 2,000.
type ownBody struct{ next http.RoundTripper }

func (o ownBody) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(b))
	}
	return o.next.RoundTrip(req)
}

// run starts the server and waits until it answers. The returned function ends
// it and waits for its end.
func run(python string, args []string) (endpoint string, stop func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.Command(python, args...) //nolint:noctx // it outlives this context
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	ownGroup(cmd)
	// The server leaves when this end closes, even if this process is killed.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	ended := make(chan struct{})
	stop = func() {
		stdin.Close()
		killGroup(cmd)
		<-ended
	}
	port := make(chan string, 1)
	go func() {
		defer close(ended)
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		port <- strings.TrimSpace(line)
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	}()
	fail := func(err error) (string, func(), error) {
		stop()
		return "", nil, fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	select {
	case p := <-port:
		if p == "" {
			return fail(errors.New("the server ended before it listened"))
		}
		endpoint = "http://127.0.0.1:" + p
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	if err := answers(ctx, endpoint); err != nil {
		return fail(err)
	}
	return endpoint, stop, nil
}

// answers asks the emulator's own health page. The port is already bound, so one
// request waits as long as the server needs.
func answers(ctx context.Context, endpoint string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/moto-api/data.json", nil)
	if err != nil {
		return err
	}
	// A connection of its own, closed at once: the serial server answers nobody
	// else while one is open.
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the health page answers %s", res.Status)
	}
	return nil
}

// interpreter finds the Python that has moto: LAZY_MOTO_PYTHON, or the one that
// the moto_server command names in its first line, behind a pyenv shim if need be.
func interpreter(ctx context.Context) (string, error) {
	if p := os.Getenv("LAZY_MOTO_PYTHON"); p != "" {
		return exec.LookPath(p)
	}
	command, err := exec.LookPath("moto_server")
	if err != nil {
		return "", err
	}
	python, err := shebang(command)
	if err != nil {
		return "", err
	}
	if strings.Contains(filepath.Base(python), "python") {
		return exec.LookPath(python)
	}
	out, err := exec.CommandContext(ctx, "pyenv", "which", "moto_server").Output()
	if err != nil {
		return "", fmt.Errorf("%s is a script of %s and pyenv does not know it: %w", command, python, err)
	}
	if python, err = shebang(strings.TrimSpace(string(out))); err != nil {
		return "", err
	}
	return exec.LookPath(python)
}

// shebang returns the interpreter that a script's first line names.
func shebang(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 1024)).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the first line of %s: %w", path, err)
	}
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return "", fmt.Errorf("%s is not a script", path)
	}
	if filepath.Base(words[0]) == "env" && len(words) > 1 {
		return words[1], nil
	}
	return words[0], nil
}
