package planetest

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Vault is where a hosted run's workspace is kept: its storage refuses what the
// real one refuses, and its pointer moves forward only.
type Vault struct {
	turn.Vault
	Objects map[string][]byte
	Down    bool // storage answers 503
	Expired int  // so many links are too old when they are used
	Links   int  // that were given out
}

// stored refuses a commit that is said to be where it is not.
func (p *Plane) stored(ev *identity.Commit) error {
	if p.Vault == nil {
		return nil
	}
	if _, ok := p.Vault.Objects[ev.Bundle]; !ok {
		return fault.New(fault.Invalid, "the commit is not stored")
	}
	p.Vault.Bundles = append(p.Vault.Bundles, turn.Bundle{Name: ev.Bundle, Parent: ev.Parent, Commit: ev.Commit})
	return nil
}

func (p *Plane) welcome() *turn.Vault {
	if p.Vault == nil {
		return nil
	}
	v := p.Vault.Vault
	return &v
}

func (p *Plane) upload(body []byte) (any, error) {
	in, err := strict[turn.UploadIn](body)
	if err != nil {
		return nil, err
	}
	v := p.Vault
	if v == nil {
		return nil, fault.New(fault.Invalid, "nothing is uploaded here")
	}
	var out turn.UploadOut
	v.Links += len(in.Put) + len(in.Get)
	for _, x := range in.Put {
		epoch, _, _, err := turn.ParseObject(x.Name)
		if err != nil || epoch != p.Command.Epoch || len(x.SHA256) != 32 || x.Size <= 0 {
			return nil, fault.New(fault.Invalid, "put %+v", x)
		}
		out.Put = append(out.Put, turn.Link{Method: http.MethodPut, URL: p.srv.URL + "/store/" + x.Name, Header: map[string]string{
			"If-None-Match": "*", "X-Sum": base64.StdEncoding.EncodeToString(x.SHA256), "X-Size": strconv.FormatInt(x.Size, 10),
		}})
	}
	for _, name := range in.Get {
		out.Get = append(out.Get, turn.Link{Method: http.MethodGet, URL: p.srv.URL + "/store/" + name})
	}
	for _, name := range in.Packs {
		if !turn.IsPack(name) {
			return nil, fault.New(fault.Invalid, "packs %q", name)
		}
		out.Packs = append(out.Packs, turn.Link{Method: http.MethodGet, URL: p.srv.URL + "/store/" + name})
	}
	if in.Repository {
		out.Repository = v.Repository
	}
	if c := in.Point; c != nil {
		if c.Epoch != p.Command.Epoch || v.Checkpoint != nil && !c.Newer(*v.Checkpoint) {
			return nil, fault.New(fault.Conflict, "checkpoint %+v after %+v", c, v.Checkpoint)
		}
		v.Checkpoint = c
	}
	return out, nil
}

// storage answers links.
func (p *Plane) storage(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.tell()
	name := strings.TrimPrefix(r.URL.Path, "/store/")
	have, ok := p.Vault.Objects[name]
	sum := sha256.Sum256(body)
	switch {
	case p.Vault.Down:
		w.WriteHeader(http.StatusServiceUnavailable)
	case p.Vault.Expired > 0:
		p.Vault.Expired--
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodGet && !ok:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		_, _ = w.Write(have)
	case ok:
		w.WriteHeader(http.StatusPreconditionFailed)
	case r.Header.Get("X-Sum") != base64.StdEncoding.EncodeToString(sum[:]) || r.Header.Get("X-Size") != strconv.Itoa(len(body)):
		w.WriteHeader(http.StatusBadRequest)
	default:
		p.Vault.Objects[name] = body
	}
}
