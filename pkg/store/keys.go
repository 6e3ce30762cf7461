package store

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
)

// Tenant builds the keys of one tenant. There is no other way to a key
// (DESIGN 4), so a request cannot even name a row outside its credential's tenant.
type Tenant struct{ t string }

// For returns the key builder of a tenant.
func For(tenant string) Tenant {
	if tenant == "" || strings.ContainsAny(tenant, "# \x00") {
		panic("store: not a tenant: " + tenant)
	}
	return Tenant{tenant}
}

// Name returns the tenant.
func (t Tenant) Name() string { return t.t }

func (t Tenant) root() string { return "T#" + t.t }

// Meta is the tenant's own row.
func (t Tenant) Meta() Key { return Key{t.root(), "META"} }

// TokenKey is the row of the wrapped key that token texts are derived with.
func (t Tenant) TokenKey() Key { return Key{t.root(), "KEY#token"} }

// Token is the row of a credential, by the SHA-256 of its text.
func (t Tenant) Token(hash string) Key { return Key{t.root(), "TOK#" + hash} }

// TokenOf is the row that names the live token of an identity.
func (t Tenant) TokenOf(kind, project, subject string) Key {
	return Key{t.root(), "TKI#" + kind + "#" + project + "#" + subject}
}

// Idem is the row of an idempotency key, scoped to the credential that sent it;
// it also answers for the operation in flight under that key (OT-048, OT-050).
func (t Tenant) Idem(caller, key string) Key { return Key{t.root() + "#IDEM#" + caller, key} }

// Confirm is the row of a confirmation code, by its hash.
func (t Tenant) Confirm(hash string) Key { return Key{t.root(), "CNF#" + hash} }

// Credential is the row of a stored model credential, by its owner and name.
func (t Tenant) Credential(owner, name string) Key {
	return Key{t.root(), "CRD#" + owner + "#" + name}
}

// Credentials is the prefix of all stored model credentials of the tenant.
func (t Tenant) Credentials() (pk, prefix string) { return t.root(), "CRD#" }

// Lease is the row of a lease on a target branch or other short work.
func (t Tenant) Lease(project, what string) Key {
	return Key{t.root() + "#PRJ#" + project, "LSE#" + what}
}

// DataKey is the row of the tenant's wrapped data key. Deleting it makes
// everything that was sealed for the tenant unreadable (ID-031).
func (t Tenant) DataKey() Key { return Key{t.root(), "KEY"} }

// Project is the partition of a project.
func (t Tenant) Project(project string) Partition {
	return Partition{t.root() + "#PRJ#" + project}
}

// Task is the partition of a task.
func (t Tenant) Task(task id.Task) Partition {
	return Partition{t.root() + taskPartition + string(task)}
}

const taskPartition = "#TSK#"

// Flow is the partition of the local engine's executions of this tenant.
func (t Tenant) Flow() Partition { return Partition{t.root() + "#FLW"} }

// Partition builds the keys inside one partition.
type Partition struct{ PK string }

// Key returns the row sk of the partition.
func (p Partition) Key(sk string) Key { return Key{p.PK, sk} }

// Meta is the partition's own row.
func (p Partition) Meta() Key { return Key{p.PK, "META"} }

// Live is the list row of a task that is not terminal. The rows lie in the order
// the tasks were made in, which is the order of a listing, so that a page of it
// reads a page of them.
func (p Partition) Live(created time.Time, task id.Task) Key {
	return Key{p.PK, fmt.Sprintf("LIVE#%016x#%s", uint64(max(0, created.UnixNano())), task)}
}

// Code is the row that makes a code unique in the project.
func (p Partition) Code(code string) Key { return Key{p.PK, "CODE#" + code} }

// Short is the row that makes a short id unique in the project.
func (p Partition) Short(short string) Key { return Key{p.PK, "SHORT#" + short} }

// Turn is the nth turn of a task.
func (p Partition) Turn(seq int64) Key { return Key{p.PK, fmt.Sprintf("TRN#%08d", seq)} }

// History is the row of one status change, named by the version it led to.
func (p Partition) History(version int64) Key {
	return Key{p.PK, fmt.Sprintf(historyPrefix+"%08d", version)}
}

// historyPrefix begins the sort key of a history row; names.HistoryPrefix is what
// the stack knows it by.
const historyPrefix = "HIS#"

// Comment is a queued instruction.
func (p Partition) Comment(seq int64) Key { return Key{p.PK, fmt.Sprintf("CMT#%08d", seq)} }

// Journal is a passive note.
func (p Partition) Journal(seq int64) Key { return Key{p.PK, fmt.Sprintf("JRN#%08d", seq)} }

// Raised is a raised item.
func (p Partition) Raised(seq int64) Key { return Key{p.PK, fmt.Sprintf("RSD#%08d", seq)} }

// Commit is the durable row of a broker commit, by its epoch and number (UW-013).
func (p Partition) Commit(epoch, n int64) Key {
	return Key{p.PK, fmt.Sprintf("COM#%08d#%08d", epoch, n)}
}

// Body is an immutable text of up to 16 KB.
func (p Partition) Body(name string) Key { return Key{p.PK, "BDY#" + name} }

// Response is the stored report of a run, one per epoch (CR-018, CR-019).
func (p Partition) Response(epoch int64) Key { return Key{p.PK, fmt.Sprintf("RSP#%08d", epoch)} }

// Run is the run item of an epoch (SY-048).
func (p Partition) Run(epoch int64) Key { return Key{p.PK, fmt.Sprintf("RUN#%08d", epoch)} }

// Launch is a runner's own record of what it started for an epoch, written
// before it starts anything (B24).
func (p Partition) Launch(epoch int64) Key { return Key{p.PK, fmt.Sprintf("LCH#%08d", epoch)} }

// Vault is the sealed key of the task's checkpoints and commit bundles.
func (p Partition) Vault() Key { return Key{p.PK, "VLT"} }

// Git is the row of a hosted project's repository: its key, and how many packs it
// has.
func (p Partition) Git() Key { return Key{p.PK, "GIT"} }

// Branch is the row of a branch of a hosted project.
func (p Partition) Branch(name string) Key { return Key{p.PK, "REF#" + name} }

// Pack is the row of the nth pack of a hosted project's repository.
func (p Partition) Pack(n int64) Key { return Key{p.PK, fmt.Sprintf("PCK#%08d", n)} }

// Push is the row of a bundle on its way into a hosted project's repository.
func (p Partition) Push(id string) Key { return Key{p.PK, "PSH#" + id} }

// Shards is the number of partitions of the due index.
const Shards = 16

const dueLayout = "2006-01-02T15:04:05.000000000Z"

// DueAt returns the place in the due index of a row that must be visited at.
func DueAt(k Key, at time.Time) Slot {
	h := fnv.New32a()
	h.Write([]byte(k.PK))
	return Slot{
		PK: fmt.Sprintf("DUE#%02d", h.Sum32()%Shards),
		SK: at.UTC().Format(dueLayout) + "#" + k.PK + "#" + k.SK,
	}
}

// DueTime reads the time back out of a due slot.
func DueTime(s Slot) (time.Time, bool) {
	if len(s.SK) < len(dueLayout) {
		return time.Time{}, false
	}
	t, err := time.Parse(dueLayout, s.SK[:len(dueLayout)])
	return t, err == nil
}

// PastAt returns the place of a finished task in its project's history.
func PastAt(p Partition, at time.Time, task id.Task) Slot {
	return Slot{PK: p.PK + "#PAST", SK: at.UTC().Format(dueLayout) + "#" + string(task)}
}

// Operation is the row by which an operation's id finds its task. The time in the
// id is no part of the key, so that it is found from the idempotency key as well
// whose request began the operation.
func (t Tenant) Operation(op string) Key { return Key{t.root(), "OPR#" + id.Tail(op)} }

// Outbox is an outbox row of the partition, named by what wrote it.
func (p Partition) Outbox(name string) Key { return Key{p.PK, "OUT#" + name} }

// Gates is the row of the tenant's ground stop and drain.
func (t Tenant) Gates() Key { return Key{t.root(), "GATES"} }

// Reading is the row of the newest word of a model service about a credential.
func (t Tenant) Reading(credential string) Key { return Key{t.root(), "RDG#" + credential} }

// Member is the row of a person in the tenant, by their address (DESIGN 4).
func (t Tenant) Member(email string) Key { return Key{t.root(), "MEM#" + email} }

// Members is the prefix of all people of the tenant.
func (t Tenant) Members() (pk, prefix string) { return t.root(), "MEM#" }

// Family is the row of a sign-in, by its id.
func (t Tenant) Family(id string) Key { return Key{t.root(), "FAM#" + id} }

// Families is the prefix of the sign-ins whose ids begin with begin.
func (t Tenant) Families(begin string) (pk, prefix string) { return t.root(), "FAM#" + begin }

// Grant is the row of something short-lived that is not a tenant's yet: a code, a
// sign-in on its way, a counter. It lies with the control plane itself.
func (t Tenant) Grant(kind, name string) Key {
	return Key{t.root() + "#GRT#" + kind + "#" + name, "META"}
}

// Person is the partition that says where a person is a member, by the hash of
// their address. The member's own row decides.
func (t Tenant) Person(hash string) Partition { return Partition{t.root() + "#WHO#" + hash} }
