// Package lambdafake runs the real binary of a Lambda function behind a fake of
// the Lambda Runtime API. It keeps to what the service does with a process: one
// invocation at a time in each instance, a new instance when all are busy, an
// answer that streams while the handler still runs, and an instance ended that
// has not answered when its time is over.
package lambdafake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is a function.
type Config struct {
	Name    string
	Bin     string
	Env     []string      // all of the environment but what the service adds
	Timeout time.Duration // of one invocation, which it is told; 0 means 30 s
	Slack   time.Duration // how much later an instance is ended, for slow machines
	Most    int           // instances at once; 0 means 16
	Log     io.Writer     // what the instances write; nil drops it
}

// Function is a deployed function. Close it.
type Function struct {
	addr string
	srv  *http.Server
	log  io.Writer

	mu    sync.Mutex
	c     Config               // guarded by mu: Deploy changes it
	all   map[string]*instance // guarded by mu
	idle  []*instance          // guarded by mu
	made  int                  // guarded by mu
	inits []time.Duration      // guarded by mu
	freed chan struct{}        // guarded by mu: closed when an instance is idle or gone
	done  bool                 // guarded by mu
	tasks sync.WaitGroup
}

// instance is one process. Its current job is set while it is busy.
type instance struct {
	f     *Function
	id    string
	bin   string
	cmd   *exec.Cmd
	began time.Time
	work  chan *job // one invocation, when it asks
	gone  chan struct{}

	mu    sync.Mutex
	first bool // guarded by mu: it has asked for work
	now   *job // guarded by mu
	fatal *Error
}

type job struct {
	id      string
	event   []byte
	limit   time.Duration
	answers chan answer // one
	over    chan struct{}
	once    sync.Once
}

func (j *job) finish() { j.once.Do(func() { close(j.over) }) }

type answer struct {
	reply *Reply
	err   error
}

// Reply is what a function answers. Body ends with the answer; an answer that
// broke off ends with an error.
type Reply struct {
	ContentType string
	Body        io.ReadCloser
}

// Error is what the service says of an invocation that failed.
type Error struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

// Start makes the function. Its first instance starts with its first invocation.
func Start(c Config) (*Function, error) {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Most == 0 {
		c.Most = 16
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Function{addr: ln.Addr().String(), c: c, log: c.Log, all: map[string]*instance{}, freed: make(chan struct{})}
	if f.log == nil {
		f.log = io.Discard
	}
	mux := http.NewServeMux()
	const api = "/{instance}/2018-06-01/runtime/"
	mux.HandleFunc("GET "+api+"invocation/next", f.next)
	mux.HandleFunc("POST "+api+"invocation/{id}/response", f.response)
	mux.HandleFunc("POST "+api+"invocation/{id}/error", f.failure)
	mux.HandleFunc("POST "+api+"init/error", f.initFailure)
	f.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	f.tasks.Go(func() { _ = f.srv.Serve(ln) })
	return f, nil
}

// Deploy has every invocation from here on run another binary. Instances that
// are busy finish what they do, as on AWS.
func (f *Function) Deploy(bin string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c.Bin = bin
	for _, i := range f.idle {
		_ = i.cmd.Process.Kill()
	}
	f.idle = nil
}

// Kill ends every instance at whatever it is doing, as a lost machine does.
func (f *Function) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.all {
		_ = i.cmd.Process.Kill()
	}
	f.idle = nil
}

// Inits returns how long each instance took from its start to its first request
// for work.
func (f *Function) Inits() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Duration(nil), f.inits...)
}

// Close ends every instance.
func (f *Function) Close() {
	f.mu.Lock()
	f.done = true
	for _, i := range f.all {
		_ = i.cmd.Process.Kill()
	}
	f.mu.Unlock()
	_ = f.srv.Close()
	f.tasks.Wait()
}

// Invoke hands one event to an instance and returns its answer as soon as it
// begins. An invocation that fails is an *Error.
func (f *Function) Invoke(ctx context.Context, event []byte) (*Reply, error) {
	i, err := f.take(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.made++
	j := &job{
		id: fmt.Sprintf("%s-%d", f.c.Name, f.made), event: event, limit: f.c.Timeout,
		answers: make(chan answer, 1), over: make(chan struct{}),
	}
	slack := f.c.Slack
	f.mu.Unlock()
	f.tasks.Go(func() { i.run(j, slack) })
	select {
	case a := <-j.answers:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run gives a job to the instance and sees to its end.
func (i *instance) run(j *job, slack time.Duration) {
	defer j.finish()
	select {
	case i.work <- j:
	case <-i.gone:
		j.fail(i.why())
		return
	}
	t := time.NewTimer(j.limit + slack)
	defer t.Stop()
	select {
	case <-j.over:
	case <-i.gone:
		j.fail(i.why())
	case <-t.C:
		j.fail(&Error{"Sandbox.Timedout", fmt.Sprintf("Task timed out after %s", j.limit)})
		_ = i.cmd.Process.Kill()
		<-i.gone
	}
}

func (j *job) fail(err error) {
	select {
	case j.answers <- answer{err: err}:
	default: // it has begun to answer
	}
}

func (i *instance) why() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fatal != nil {
		return i.fatal
	}
	return &Error{"Runtime.ExitError", "the process ended before it answered"}
}

// take finds an idle instance, starts one, or waits for one.
func (f *Function) take(ctx context.Context) (*instance, error) {
	for {
		f.mu.Lock()
		switch n := len(f.idle); {
		case f.done:
			f.mu.Unlock()
			return nil, errors.New("lambdafake: the function is closed")
		case n > 0:
			i := f.idle[n-1]
			f.idle = f.idle[:n-1]
			f.mu.Unlock()
			return i, nil
		case len(f.all) < f.c.Most:
			i, err := f.start()
			f.mu.Unlock()
			return i, err
		}
		freed := f.freed
		f.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// start begins a process; f.mu is held.
func (f *Function) start() (*instance, error) {
	f.made++
	i := &instance{
		f: f, id: "i" + strconv.Itoa(f.made), bin: f.c.Bin, began: time.Now(), work: make(chan *job), gone: make(chan struct{}),
	}
	i.cmd = exec.Command(f.c.Bin) //nolint:noctx // it ends with the function
	i.cmd.Env = append(append([]string(nil), f.c.Env...),
		"AWS_LAMBDA_RUNTIME_API="+f.addr+"/"+i.id, "AWS_LAMBDA_FUNCTION_NAME="+f.c.Name, "_LAMBDA_SERVER_PORT=")
	i.cmd.Stdout, i.cmd.Stderr = f.log, f.log
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start an instance: %w", err)
	}
	f.all[i.id] = i
	f.tasks.Go(func() {
		_ = i.cmd.Wait()
		f.mu.Lock()
		delete(f.all, i.id)
		for n, o := range f.idle {
			if o == i {
				f.idle = append(f.idle[:n], f.idle[n+1:]...)
				break
			}
		}
		f.wake()
		f.mu.Unlock()
		close(i.gone)
	})
	return i, nil
}

// wake tells those who wait for an instance; f.mu is held.
func (f *Function) wake() {
	close(f.freed)
	f.freed = make(chan struct{})
}

func (f *Function) instance(r *http.Request) *instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[r.PathValue("instance")]
}

// next hands out work. Asking for it ends the invocation before.
func (f *Function) next(w http.ResponseWriter, r *http.Request) {
	i := f.instance(r)
	if i == nil {
		http.Error(w, "no such instance", http.StatusForbidden)
		return
	}
	i.mu.Lock()
	again := i.first
	i.first = true
	if i.now != nil {
		i.now.finish()
		i.now = nil
	}
	i.mu.Unlock()
	f.mu.Lock()
	switch {
	case !again:
		f.inits = append(f.inits, time.Since(i.began))
	case i.bin != f.c.Bin: // succeeded by another version
		f.mu.Unlock()
		_ = i.cmd.Process.Kill()
		return
	default:
		f.idle = append(f.idle, i)
		f.wake()
	}
	f.mu.Unlock()
	select {
	case j := <-i.work:
		i.mu.Lock()
		i.now = j
		i.mu.Unlock()
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", j.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(j.limit).UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-west-1:123456789012:function:"+f.c.Name)
		h.Set("Content-Type", "application/json")
		_, _ = w.Write(j.event)
	case <-i.gone:
	case <-r.Context().Done():
	}
}

func (f *Function) job(r *http.Request) *job {
	i := f.instance(r)
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now == nil || i.now.id != r.PathValue("id") {
		return nil
	}
	return i.now
}

// response passes an answer on while it is still being written.
func (f *Function) response(w http.ResponseWriter, r *http.Request) {
	j := f.job(r)
	if j == nil {
		http.Error(w, "no such invocation", http.StatusBadRequest)
		return
	}
	body, pipe := io.Pipe()
	select {
	case j.answers <- answer{reply: &Reply{ContentType: r.Header.Get("Content-Type"), Body: body}}:
	default:
		http.Error(w, "it was answered", http.StatusBadRequest)
		return
	}
	_, err := io.Copy(pipe, r.Body)
	if errors.Is(err, io.ErrClosedPipe) { // nobody listens any more; the function does not learn that
		_, err = io.Copy(io.Discard, r.Body)
	}
	if kind := r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); kind != "" && err == nil {
		err = &Error{kind, "the answer broke off"}
	}
	_ = pipe.CloseWithError(err)
	w.WriteHeader(http.StatusAccepted)
}

func readError(r *http.Request) *Error {
	e := &Error{Type: "Unhandled"}
	if b, err := io.ReadAll(r.Body); err == nil && json.Unmarshal(b, e) != nil {
		e.Message = string(bytes.TrimSpace(b))
	}
	return e
}

func (f *Function) failure(w http.ResponseWriter, r *http.Request) {
	if j := f.job(r); j != nil {
		j.fail(readError(r))
	}
	w.WriteHeader(http.StatusAccepted)
}

func (f *Function) initFailure(w http.ResponseWriter, r *http.Request) {
	if i := f.instance(r); i != nil {
		e := readError(r)
		i.mu.Lock()
		i.fatal = e
		i.mu.Unlock()
	}
	w.WriteHeader(http.StatusAccepted)
}

// Call invokes the function and reads its whole answer.
func (f *Function) Call(ctx context.Context, event []byte) ([]byte, error) {
	r, err := f.Invoke(ctx, event)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }()
	return io.ReadAll(r.Body)
}

// ServeHTTP invokes the function with the request's body, in the form that the
// emulator's lambda:invoke wants: status 500 with the error's own JSON when the
// invocation failed.
func (f *Function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	event, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := f.Call(r.Context(), event)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{"Lambda.ServiceException", strings.TrimSpace(err.Error())}
		}
		if out, err = json.Marshal(e); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(out)
}
