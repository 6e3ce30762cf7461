package op

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// PushBranchIn is the input of pushBranch.
type PushBranchIn struct {
	Branch string `json:"branch" jsonschema:"the branch to move"`
	Head   string `json:"head" jsonschema:"the commit it is to stand at, by its full id"`
	Expect string `json:"expect,omitempty" jsonschema:"the commit it stands at now, by its full id; left out for a branch that is to be made"`
	Force  bool   `json:"force,omitempty" jsonschema:"let the branch lose commits that head lacks"`
	Size   int    `json:"size" jsonschema:"length in bytes of the git bundle that will be uploaded"`
	SHA256 string `json:"sha256" jsonschema:"its SHA-256, in hexadecimal digits"`
}

// FinishPushIn is the input of finishPush.
type FinishPushIn struct {
	PushID string `json:"push_id" jsonschema:"the push, as pushBranch named it"`
}

// PullBranchIn is the input of pullBranch.
type PullBranchIn struct {
	Branch string   `json:"branch" jsonschema:"the branch to take"`
	Have   []string `json:"have,omitempty" jsonschema:"commits that are there already, by their full ids; what they hold is left out"`
}

// Answers about a hosted project's repository.
type (
	// Transferred answers pushBranch, finishPush and pullBranch.
	Transferred = app.Transferred
	// BranchList answers listBranches.
	BranchList = app.BranchList
)

// repositoryOps bring commits to a hosted project's repository and take them from
// it. Commits are moved by people alone: what a task commits goes through its run.
func repositoryOps() []Op {
	return []Op{
		Define(Op{
			Name: "listBranches", Effect: Read, People: readers(),
			Doc:     "List the branches of a hosted project's repository with their heads.",
			Refuses: []refusal.Code{refusal.HostedOnly},
		}, func(ctx context.Context, a *app.App, c app.Call, _ NoneIn) (BranchList, error) {
			return a.ListBranches(ctx, c)
		}),
		Define(Op{
			Name: "pushBranch", People: people(),
			Doc: "Begin to bring commits into a hosted project's repository. The answer says where a git bundle of exactly the announced bytes is uploaded; no branch moves before finishPush.",
			Refuses: []refusal.Code{
				refusal.HostedOnly, refusal.BranchMoved,
			},
		}, func(ctx context.Context, a *app.App, c app.Call, in PushBranchIn) (Transferred, error) {
			return a.PushBranch(ctx, c, app.PushIn{
				Branch: in.Branch, Head: in.Head, Expect: in.Expect, Force: in.Force, Size: int64(in.Size), SHA256: in.SHA256,
			})
		}, lengths(1, 200, "branch"), lengths(40, 64, "head"), lengths(0, 64, "expect"), lengths(64, 64, "sha256"), between("size", 1, app.TransferMost)),
		Define(Op{
			Name: "finishPush", People: people(), Long: true, Flow: app.FlowTransfer,
			Doc: "Check and import what was uploaded for a push, and move its branch if it is still where the push expects it. While that lasts longer than a request, the answer is state ordered: ask again.",
			Refuses: []refusal.Code{
				refusal.HostedOnly, refusal.BranchMoved, refusal.NotFastForward, refusal.UploadMissing, refusal.BundleDamaged, refusal.BundleIncomplete,
			},
		}, func(ctx context.Context, a *app.App, c app.Call, in FinishPushIn) (Transferred, error) {
			return a.FinishPush(ctx, c, in.PushID)
		}, lengths(1, 64, "push_id")),
		Define(Op{
			Name: "pullBranch", People: people(), Long: true, Flow: app.FlowTransfer,
			Doc:     "Say where to download the commits of a hosted branch that the caller lacks, as a git bundle. While it is being made, the answer is state ordered: ask again.",
			Refuses: []refusal.Code{refusal.HostedOnly},
		}, func(ctx context.Context, a *app.App, c app.Call, in PullBranchIn) (Transferred, error) {
			return a.PullBranch(ctx, c, in.Branch, in.Have)
		}, lengths(1, 200, "branch"), items("have", 0, 100)),
	}
}
