package cli

import "github.com/spf13/cobra"

// commands is the tree of commands, in the order people meet them.
func (e *Env) commands() []group {
	return []group{
		{"begin", "Begin:", []*cobra.Command{
			e.demoCommand(), e.initCommand(), e.doctorCommand(),
		}},
		{"work", "Make tasks and run them:", []*cobra.Command{
			e.createCommand(), e.editCommand(), e.startCommand(), e.waitCommand(), e.unblockCommand(), e.resumeCommand(),
			e.stopCommand(), e.syncCommand(), e.askCommand(), e.pushCommand(), e.pullCommand(),
		}},
		{"look", "Look:", []*cobra.Command{
			e.listCommand(), e.activeCommand(), e.blockedCommand(), e.statusCommand(), e.showCommand(), e.diffCommand(),
			e.searchCommand(), e.watchCommand(), e.statsCommand(),
		}},
		{"decide", "Decide:", []*cobra.Command{
			e.acceptCommand(), e.rejectCommand(), e.closeCommand(), e.reopenCommand(), e.raisedCommand(),
			e.protectCommand(), e.commentCommand(), e.journalCommand(), e.tagCommand(), e.untagCommand(), e.builderCommand(),
		}},
		{"plane", "The control plane:", []*cobra.Command{
			e.upCommand(), e.downCommand(), e.planeCommand(), e.authCommand(), e.groundStopCommand(), e.drainCommand(), e.loginCommand(), e.logoutCommand(), e.projectCommand(), e.dashboardCommand(), e.whoamiCommand(), e.versionCommand(), e.completionCommand(),
		}},
	}
}
