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
	type counts struct{ errors, notes int64 }
	damaged := map[string]counts{
		"crash_cq_behind/store.tar.gz":         {errors: 3},           // a queue is missing, two lack their ends
		"crash_cq_behind/store_after.tar.gz":   {errors: 1, notes: 1}, // RocketMQ fills in blanks
		"crash_cq_deleted/store_after.tar.gz":  {errors: 6, notes: 6}, // in all queues
		"crash_file_short/store.tar.gz":        {errors: 1},           // the cut file
		"crash_file_short/store_after.tar.gz":  {errors: 1},
		"crash_log_deleted/store.tar.gz":       {errors: 7},           // six queues point nowhere, and the checkpoint
		"crash_log_deleted/store_after.tar.gz": {errors: 1},           // the checkpoint stays
		"crash_tail_torn/store.tar.gz":         {errors: 1, notes: 1}, // a unit of the torn message
		"crash_tail_torn/store_after.tar.gz":   {errors: 2},           // RocketMQ zeroes nothing
		"crash_tail_zero/store.tar.gz":         {errors: 4},           // three units, and the checkpoint
		"crash_tail_zero/store_after.tar.gz":   {errors: 4},
		"nocrash_cq_deleted/store.tar.gz":      {errors: 6}, // six queues
		"topic_utf8_overlong/store.tar.gz":     {errors: 2}, // a record that RocketMQ should have refused
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
				sum, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) { found = append(found, f) })
				require.NoError(t, err)
				require.Equal(t, damaged[name+"/"+archive], counts{sum.Errors, sum.Notes}, "%v", found)
				_, err = inspect.Info(dir)
				require.NoError(t, err)
			})
		}
	}
}
