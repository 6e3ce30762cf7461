package turn

import (
	"fmt"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Landing is what the broker of an accept works from: the task's commits are to be
// put on the target as one commit (AP-005, GT-023). It is made anew, from where the
// target then stands, each time that the target has moved.
type Landing struct {
	Task   id.Task   `json:"task_id"`
	Target string    `json:"target"`
	Head   string    `json:"target_head"` // where the target stands
	Base   string    `json:"base"`        // where the task's own commits begin
	Tip    string    `json:"tip"`
	Title  string    `json:"title"`
	Reason string    `json:"reason,omitempty"`
	Author string    `json:"author"`
	Email  string    `json:"email"`
	When   time.Time `json:"when"` // the same at each try, so that equal landings are one commit
	// Intent is the commit that was last recorded as the one that is to land, "" for
	// none: the target may hold it already (AP-018).
	Intent string `json:"intent,omitempty"`
	// Have are commits that the repository's packs hold.
	Have       []string    `json:"have,omitempty"`
	Repository *Repository `json:"repository"`
	// Chain is what runs have committed that is in no pack yet: of the tasks that this
	// one was cut from, first, and of the task itself.
	Chain []Chain `json:"chain,omitempty"`
}

// Chain is what the runs of one task have committed.
type Chain struct {
	Task    id.Task  `json:"task_id"`
	Key     []byte   `json:"key"`
	Bundles []Bundle `json:"bundles,omitempty"` // in the order to apply them
}

// LandIn is what a broker made of a landing: a commit, whose packs are stored, the
// files in which it conflicts, or what kept it from making one. The three exclude
// each other.
type LandIn struct {
	Turn   id.Turn `json:"turn_id"`
	Epoch  int64   `json:"epoch"`
	Head   string  `json:"target_head"`      // what it was made on
	Intent string  `json:"intent,omitempty"` // the recorded commit it looked for
	// Landed says that the target holds the recorded commit already.
	Landed   bool     `json:"landed,omitempty"`
	Commit   string   `json:"commit,omitempty"`
	Tree     string   `json:"tree,omitempty"`
	Packs    []Pack   `json:"packs,omitempty"`
	Conflict []string `json:"conflict,omitempty"`
	// Failed is the kind of the fault, with its text for people.
	Failed string `json:"failed,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Pack is a bundle that was stored for the repository.
type Pack struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
	Size   int64  `json:"size"`
}

// LandOut answers a LandIn. A broker that is given no other landing is done.
type LandOut struct {
	Landed bool     `json:"landed"`
	Next   *Landing `json:"next,omitempty"`
}

// The kinds of packs that a landing leaves: the merge commit, and the task's own
// commits, which are kept when its branch goes.
const (
	PackLand = "land"
	PackKept = "kept"
)

// MergeMessage is the text of a task's merge commit: what it is about, its commits,
// why it was accepted. Of equal arguments it is the same each time.
func MergeMessage(task id.Task, title, reason string, subjects []string) string {
	var b strings.Builder
	b.WriteString(title + "\n\n")
	for i, s := range subjects {
		if i == 50 {
			fmt.Fprintf(&b, "… and %d more\n", len(subjects)-i)
			break
		}
		b.WriteString("- " + text.Line(s) + "\n")
	}
	if reason != "" {
		b.WriteString("\n" + reason + "\n")
	}
	fmt.Fprintf(&b, "\nLazy-Task: %s\n", task)
	if b.Len() > 1500 {
		return strings.ToValidUTF8(b.String()[:1500], "")
	}
	return b.String()
}
