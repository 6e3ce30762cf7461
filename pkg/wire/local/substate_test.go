package local_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func TestARunThatIsGoneIsShownNotAliveForAsLongAsItIsNotJudged(t *testing.T) {
	req.Covers(t, "OB-020", "SM-015")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.next(crash(10*time.Second, 1, "boom"))
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		seen := map[string]time.Duration{}
		for began := time.Now(); r.task(tid).Status == task.Working; time.Sleep(time.Second) {
			listed, ok := r.do("listTasks", in{})["tasks"].([]any)
			if !ok || len(listed) != 1 {
				t.Fatalf("listed: %v", listed)
			}
			seen[fmt.Sprint(listed[0].(map[string]any)["status_text"])] = time.Since(began)
		}
		if last := seen["working(not-alive)"]; last < 20*time.Second || last > 40*time.Second {
			t.Errorf("it was shown as %v", seen)
		}
		if got := r.task(tid).Status; got != task.Interrupted {
			t.Errorf("then it was %s", got)
		}
		r.rest(tid, task.Blocked)
	})
}
