package store

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
)

// The first byte of a stored document says how it is kept. A document as it is
// begins with any other byte; one that begins with these is escaped.
const (
	packEscaped = 0
	packFlate1  = 1 // deflated with words1
)

// packFrom is the size from which a document is packed. Below it an item costs
// one write unit either way.
const packFrom = 512

// Pack shortens a document for a table that charges by the begun KB of an item.
// A task's row is names of fields and hexadecimal for the most part: packed it
// stays below one unit where it would cost three.
func Pack(doc []byte) []byte {
	if len(doc) >= packFrom {
		var b bytes.Buffer
		b.WriteByte(packFlate1)
		w, err := flate.NewWriterDict(&b, flate.BestCompression, []byte(words1))
		if err == nil {
			_, err = w.Write(doc)
		}
		if err == nil {
			err = w.Close()
		}
		if err == nil && b.Len() < len(doc) {
			return b.Bytes()
		}
	}
	if len(doc) > 0 && doc[0] <= packFlate1 {
		return append([]byte{packEscaped}, doc...)
	}
	return doc
}

// Unpack gives a document back as it was before Pack.
func Unpack(b []byte) ([]byte, error) {
	switch {
	case len(b) == 0 || b[0] > packFlate1:
		return b, nil
	case b[0] == packEscaped:
		return b[1:], nil
	}
	doc, err := io.ReadAll(io.LimitReader(flate.NewReaderDict(bytes.NewReader(b[1:]), []byte(words1)), MaxItem+1))
	if err != nil {
		return nil, fmt.Errorf("store: unpack a document: %w", err)
	}
	return doc, nil
}

// Weight is the size of the item in a table that keeps its document packed: what
// a write of it is charged by.
func (i Item) Weight() int {
	n := i.Size() - len(i.Doc)
	if len(i.Doc) > 0 {
		n += len(attrDoc) + len(Pack(i.Doc))
	}
	return n
}

// attrDoc is the name a packed document has in the table.
const attrDoc = "doc"

// words1 is what documents share, the most frequent last. Stored items depend on
// it: another list is another first byte.
const words1 = `"wait_since":"wait_until":"progress":"retry":"checkpoint":"launched","launching","prepared","running","reported",` +
	`"violations":[{"path":"reason":"approved":false}],"mid_merge":["merging":"then":{"hold":true,"host_process":true,` +
	`"model":"effort":"tags":["parent":"type":"failure":{"class":"attempts":"uncommitted":{"paths":["total":` +
	`"outcome":"ok","session_id":"settled":true,"text":"summary":"exit_code":"drifted":"setup":"log":"body":"` +
	`"side":"input","side":"answer","verb":"start","receipt":"delivered","shown":[1],"redelivers":["answers":"ending":"declared_done",` +
	`{"digest":"result":{"task_id":"code":"turn_id":"operation_id":"status":"working","turn_kind":"work"},"caller":"` +
	`{"task":"turn":"epoch":1,"kind":"work","n":1,"ref":"token":"token_for":"launch","token_for":"run","state":"` +
	`"steps":0,"claimed":"prepared":"launched":"hello":"running":"beat":"ended":"` +
	`"why":"the agent ended without a finished turn","why":"stopped",` +
	`"workspace":{"state":"/projects/","tree":"/tree","gitdir":"/.git/worktrees/","objects":"/objects","shared":"/.git","ready":true},` +
	`"accept":{"operation":"","n":1,"by":{"actor":"human","actor_email":"","actor_name":""},"reason":"","step":"claimed","step":"described",` +
	`"step":"intended","step":"complete","target_head":"","tip":"","tree":"","commit":"","message":"\n\nLazy-Task: \n","resumes":0,"began":"2026-"},` +
	`"final":{"sha":"","note":"","turn_id":"","declared_at":"2026-","head_moved":false},"merge":"",` +
	`{"schema":1,"tenant":"local","project":"","id":"","code":"","goal":"","prompt":"prompt.1","agent":"claude","status":"backlog",` +
	`"status":"working","status":"merging","status":"complete","status":"interrupted","status":"blocked","prior":"backlog","prior":"blocked","epoch":1,"claimed":true,"claimed":false,"version":1,` +
	`"turn":"","turn_seq":2,"turn_kind":"work","turn_began":"2026-","had_session":true,"session":"","target":"main","branch":"lazy/","base":"","tip":"",` +
	`"commits":1,"answered":1,"raised":0,"open_raised":0,"open_blocking":0,"comments":0,"queued_comments":0,"journal":0,` +
	`"interruptions":0,"auto_resumes":0,"last":{"who":{"actor":"human","actor_email":"","actor_name":""},"did":"landed","did":"turn_completed","did":"accept","did":"start","did":"create","at":"2026-"},` +
	`"created":"2026-","updated":"2026-"}`
