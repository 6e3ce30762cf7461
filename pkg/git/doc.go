// Package git keeps task branches, workspaces and landings in a person's own
// repository. git is the git binary, and no file an agent can write is ever
// opened by it: a workspace is read and written by this package through
// os.Root, and git works on private copies in a git directory whose
// configuration is ours (GT-024, GT-027). Objects enter the shared store by
// index-pack --strict only (GT-026), refs move by compare-and-swap only, and
// the recorded tip, never an agent's HEAD, says where a branch is (GT-025).
package git
