package message

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSysFlagBits has every bit of a sysFlag, those of later versions too.
func TestSysFlagTable(t *testing.T) {
	for _, row := range []struct {
		name   string
		flag   SysFlag
		value  int32
		queued bool
	}{
		{"compressed", FlagCompressed, 0x1, true},
		{"several tags", FlagMultiTags, 0x2, true},
		{"no transaction", TransactionNone, 0x0, true},
		{"prepared", TransactionPrepared, 0x4, false},
		{"commit", TransactionCommit, 0x8, true},
		{"rollback", TransactionRollback, 0xC, false},
		{"born host is IPv6", FlagBornHostV6, 0x10, true},
		{"store host is IPv6", FlagStoreHostV6, 0x20, true},
		{"batch to unwrap", 0x40, 0x40, true},
		{"inner batch", 0x80, 0x80, true},
		{"LZ4", 0x101, 0x101, true},
		{"ZSTD", 0x201, 0x201, true},
		{"ZLIB", 0x301, 0x301, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.EqualValues(t, row.value, row.flag)
			require.Equal(t, row.queued, row.flag.Queued())
			require.Equal(t, row.flag&0xC, row.flag.Transaction())
			for _, transaction := range []SysFlag{TransactionNone, TransactionPrepared, TransactionCommit, TransactionRollback} {
				require.Equal(t, row.flag&^0xC|transaction, row.flag.WithTransaction(transaction), "replaced, other bits are kept")
			}
		})
	}
}

// TestSysFlagCompressors: bit 0 without a number is zlib, as is its number; the
// others are refused and not taken for plain.
func TestSysFlagCompressors(t *testing.T) {
	zlib := []byte{0x78, 0x9c, 0x4b, 0x04, 0x00, 0x00, 0x62, 0x00, 0x62} // "a"
	for flag, want := range map[SysFlag]string{0x1: "a", 0x301: "a", 0x101: "", 0x201: "", 0x0: string(zlib), 0x300: string(zlib)} {
		got, err := Inflate(flag, zlib, 100)
		if want == "" {
			require.Error(t, err, "%x", flag)
			continue
		}
		require.NoError(t, err, "%x", flag)
		require.Equal(t, want, string(got))
	}
}
