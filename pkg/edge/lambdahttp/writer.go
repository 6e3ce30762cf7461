package lambdahttp

import (
	"io"
	"net/http"
	"sync"
)

// writer is the http.ResponseWriter of one request. Each write is on its way
// before it returns.
type writer struct {
	header http.Header
	pipe   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed once status and sent are set, which then stay
	status int
	sent   http.Header
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	if status >= 200 { // an interim answer cannot be passed on
		w.begin(status, w.header)
	}
}

// begin answers whether it was the one that began the answer.
func (w *writer) begin(status int, h http.Header) (first bool) {
	w.once.Do(func() {
		first = true
		w.status, w.sent = status, h.Clone()
		close(w.begun)
	})
	return first
}

func (w *writer) Write(p []byte) (int, error) {
	w.begin(http.StatusOK, w.header)
	return w.pipe.Write(p)
}

// Flush does nothing: nothing is held back.
func (w *writer) Flush() {}

// end finishes the answer; err says that it is not whole.
func (w *writer) end(err error) {
	if err != nil {
		w.begin(http.StatusInternalServerError, nil)
	} else {
		w.begin(http.StatusOK, w.header)
	}
	_ = w.pipe.CloseWithError(err)
}
