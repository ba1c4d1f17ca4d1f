package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/internal/golden"
)

// TestVerifyRocketMQ verifies the recorded stores of RocketMQ 4.9.3: those that
// it closed are without a finding, and those that were damaged, some of them
// beyond what it repairs, have the findings that they should have.
func TestVerifyRocketMQ(t *testing.T) {
	type counts map[inspect.FindingKind]int
	damaged := map[string]counts{
		"crash_cq_behind/store.tar.gz":         {inspect.UnitMissing: 3},                       // a queue is missing, two lack their ends
		"crash_cq_behind/store_after.tar.gz":   {inspect.UnitBlank: 1, inspect.UnitMissing: 1}, // RocketMQ fills in blanks
		"crash_cq_deleted/store_after.tar.gz":  {inspect.UnitBlank: 6, inspect.UnitMissing: 6}, // in all queues
		"crash_file_short/store.tar.gz":        {inspect.FileSize: 1},                          // the cut file
		"crash_file_short/store_after.tar.gz":  {inspect.FileSize: 1},
		"crash_log_deleted/store.tar.gz":       {inspect.CheckpointWrong: 1, inspect.IndexEntry: 3, inspect.UnitLost: 6},  // six queues point nowhere, and the checkpoint
		"crash_log_deleted/store_after.tar.gz": {inspect.CheckpointWrong: 1, inspect.IndexEntry: 2},                       // the checkpoint stays
		"crash_tail_torn/store.tar.gz":         {inspect.IndexEntry: 1, inspect.LogTail: 1, inspect.UnitWrong: 1},         // a unit of the torn message
		"crash_tail_torn/store_after.tar.gz":   {inspect.LogTail: 1, inspect.UnitWrong: 1},                                // RocketMQ zeroes nothing
		"crash_tail_zero/store.tar.gz":         {inspect.CheckpointWrong: 1, inspect.IndexEntry: 1, inspect.UnitWrong: 3}, // three units, and the checkpoint
		"crash_tail_zero/store_after.tar.gz":   {inspect.CheckpointWrong: 1, inspect.UnitWrong: 3},
		"nocrash_cq_deleted/store.tar.gz":      {inspect.UnitMissing: 6},                                                // six queues
		"topic_utf8_overlong/store.tar.gz":     {inspect.IndexMissing: 1, inspect.LogDamage: 1, inspect.UnitMissing: 1}, // a record that RocketMQ should have refused
	}
	names, err := golden.Cases()
	require.NoError(t, err)
	for _, name := range names {
		c, err := golden.Load(name)
		require.NoError(t, err)
		for _, archive := range []string{golden.StoreArchive, golden.AfterArchive} {
			if !c.Has(archive) {
				continue
			}
			t.Run(name+"/"+archive, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				require.NoError(t, c.Unpack(archive, dir))
				var found []inspect.Finding
				_, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) { found = append(found, f) })
				require.NoError(t, err)
				kinds := counts{}
				for _, f := range found {
					kinds[f.Kind]++
				}
				if want := damaged[name+"/"+archive]; want != nil || len(kinds) > 0 {
					require.Equal(t, want, kinds, "%v", found)
				}
				_, err = inspect.Info(dir)
				require.NoError(t, err)
			})
		}
	}
}
