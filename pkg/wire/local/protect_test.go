package local

import (
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestAProtectionThatIsNotSeenInsideIsNotClaimed(t *testing.T) {
	const good = "uid=1000\ncaps=4\nNoNewPrivs:\t1\ndevices=lo\nhome=\nprocs=6\n"
	for _, p := range judge(good) {
		if !p.Holds {
			t.Errorf("%s is not in force in a good sandbox", p.Name)
		}
	}
	for what, seen := range map[string]string{
		"rights":    "uid=0\ncaps=4\nNoNewPrivs:\t1\ndevices=lo\nhome=\nprocs=6\n",
		"files":     "uid=1000\ncaps=4\nNoNewPrivs:\t1\ndevices=lo\nhome=.bashrc\nprocs=6\n",
		"processes": "uid=1000\ncaps=4\nNoNewPrivs:\t1\ndevices=lo\nhome=\nprocs=211\n",
		"network":   "uid=1000\ncaps=4\nNoNewPrivs:\t1\ndevices=eth0lo\nhome=\nprocs=6\n",
		"kernel":    "uid=1000\ncaps=4\nNoNewPrivs:\t1\ndevices=lo\nhome=\nprocs=6\nnested=yes\n",
	} {
		for _, p := range judge(seen) {
			if p.Holds == (p.Name == what) {
				t.Errorf("with %s taken away, %s is said to hold: %t", what, p.Name, p.Holds)
			}
		}
	}
}

func TestAHelperThatIsTheAgentsOwnUserIsSaidSo(t *testing.T) {
	req.Covers(t, "AG-026")
	if p := helper(true, ""); !p.Holds || p.Remedy != "" {
		t.Errorf("%+v", p)
	}
	if p := helper(false, "only root may"); p.Holds || !strings.Contains(p.Detail, "NOT in force") || !strings.Contains(p.Detail, "only root may") || p.Remedy == "" {
		t.Errorf("%+v", p)
	}
}
