package commitlog

import (
	"bytes"
	"context"
	"encoding/hex"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func TestRecordsFitFilesExactly(t *testing.T) {
	for _, tc := range []struct {
		about   string
		sizes   []int
		offsets []message.LogOffset
		blank   int64  // where the blank of the first file is
		bytes   string // of the blank
	}{
		{"leaves 8", []int{1016, 100}, []message.LogOffset{0, 1024}, 1016, "00000008cbd43194"},
		{"leaves 9", []int{1015, 100}, []message.LogOffset{0, 1024}, 1015, "00000009cbd43194"},
		{"leaves 10", []int{1014, 100}, []message.LogOffset{0, 1024}, 1014, "0000000acbd43194"},
		{"two halves leave 8", []int{508, 508, 100}, []message.LogOffset{0, 508, 1024}, 1016, "00000008cbd43194"},
		{"would leave 7", []int{508, 509}, []message.LogOffset{0, 1024}, 508, "00000204cbd43194"},
		{"100 left, 93 do not fit", []int{924, 93}, []message.LogOffset{0, 1024}, 924, "00000064cbd43194"},
		{"100 left, 92 fit", []int{924, 92, 92}, []message.LogOffset{0, 924, 1024}, 1016, "00000008cbd43194"},
	} {
		t.Run(tc.about, func(t *testing.T) {
			bothModes(t, func(t *testing.T, staged bool) {
				for _, eachTime := range []bool{false, true} {
					cfg := config(t, staged)
					l := start(t, cfg)
					c := NewCounter(0)
					var got []message.LogOffset
					for i, size := range tc.sizes {
						p := add(t, l, c, size, byte('A'+i))
						got = append(got, p.LogOffset)
						require.Equal(t, message.QueueOffset(i), p.QueueOffset)
						if eachTime {
							require.NoError(t, l.Flush())
							require.NoError(t, l.Wait(context.Background(), p, 0))
						}
					}
					require.Equal(t, tc.offsets, got)
					require.NoError(t, l.Flush())
					want := scanned(t, l)
					require.Len(t, want, len(tc.sizes))
					end := l.Visible()
					require.NoError(t, l.Close())
					rest := peek(t, cfg, tc.blank, int(1024-tc.blank))
					require.Equal(t, tc.bytes, hex.EncodeToString(rest[:8]))
					require.Equal(t, make([]byte, len(rest)-8), rest[8:])

					again := start(t, cfg)
					require.Equal(t, end, again.Visible())
					require.Equal(t, want, scanned(t, again))
					require.Equal(t, end, add(t, again, c, 91+2, 'Z').LogOffset)
					require.NoError(t, again.Close())
				}
			})
		})
	}
}

func TestTooLargeRecordIsRefusedBeforeAnythingChanges(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		l := start(t, cfg)
		c := NewCounter(7)
		add(t, l, c, 100, 'A')
		for _, size := range []int{1017, 5000} {
			_, err := l.Append(context.Background(), msg(size, 'B'), c)
			var limit *message.LimitError
			require.ErrorAs(t, err, &limit)
			require.Equal(t, int64(1016), limit.Limit)
			require.Equal(t, int64(size), limit.Value)
		}
		var b Batch
		require.NoError(t, b.Encode(batchOf(t, 10, 200), message.Host{}, 1<<20, 1<<20, false))
		_, err := l.AppendBatch(context.Background(), &b, c)
		require.ErrorIs(t, err, message.ErrLimit)
		require.Equal(t, message.QueueOffset(8), l.Next(c))
		p := add(t, l, c, 100, 'C')
		require.Equal(t, message.LogOffset(100), p.LogOffset)
		require.Equal(t, message.QueueOffset(8), p.QueueOffset)
	})
}

func TestRecordHasWhatTheLogAssigns(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		cfg.StoreHost, _ = message.ParseHost("10.1.2.3:10911")
		own, _ := message.ParseHost("[2001:db8::1]:7")
		l := start(t, cfg)
		c := NewCounter(40)
		m := msg(150, 'A')
		m.LogOffset, m.QueueOffset, m.StoreTimestamp, m.BodyCRC, m.StoreSize = 9, 9, 9, 9, 9
		given := *m
		p, err := l.Append(context.Background(), m, c)
		require.NoError(t, err)
		require.Equal(t, given, *m, "the caller's message is not changed")
		m.StoreHost = own
		p2, err := l.Append(context.Background(), m, c)
		require.NoError(t, err)
		require.Equal(t, p.End(), p2.LogOffset)
		require.Equal(t, 162, p2.Bytes)
		require.NoError(t, l.Flush())

		got := read(t, l, p.LogOffset)
		require.Equal(t, message.LogOffset(0), got.LogOffset)
		require.Equal(t, message.QueueOffset(40), got.QueueOffset)
		require.Equal(t, cfg.Now().UnixMilli(), got.StoreTimestamp)
		require.Equal(t, p.StoreTimestamp, got.StoreTimestamp)
		require.Equal(t, message.BodyCRC(m.Body), got.BodyCRC)
		require.Equal(t, cfg.StoreHost, got.StoreHost)
		require.Equal(t, own, read(t, l, p2.LogOffset).StoreHost)
	})
}

func read(t *testing.T, l *Log, off message.LogOffset) message.MessageExt {
	t.Helper()
	f := l.Acquire(off)
	require.NotNil(t, f)
	defer f.Unpin()
	m, err := l.Copy(f, off)
	require.NoError(t, err)
	return m
}

func TestUnqueuedRecordsTakeNoQueueOffset(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		l := start(t, config(t, staged))
		c := NewCounter(5)
		var got []message.QueueOffset
		for _, kind := range []message.SysFlag{message.TransactionNone, message.TransactionPrepared, message.TransactionCommit, message.TransactionRollback, message.TransactionNone} {
			m := msg(120, 'A')
			m.SysFlag = kind
			p, err := l.Append(context.Background(), m, c)
			require.NoError(t, err)
			got = append(got, p.QueueOffset)
		}
		require.Equal(t, []message.QueueOffset{5, 0, 6, 0, 7}, got)
		require.Equal(t, message.QueueOffset(8), l.Next(c))
		require.NoError(t, l.Flush())
		require.Equal(t, []string{"0:5:A", "120:0:A", "240:6:A", "360:0:A", "480:7:A"}, scanned(t, l))
	})
}

func TestStoreTimeNeverDecreases(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		c := &clock{}
		cfg.Now = c.now
		l := start(t, cfg)
		n := NewCounter(0)
		for _, step := range []struct{ clock, want int64 }{{1000, 1000}, {400, 1000}, {1000, 1000}, {1001, 1001}, {0, 1001}} {
			c.set(step.clock)
			require.Equal(t, step.want, add(t, l, n, 100, 'A').StoreTimestamp)
			require.Equal(t, step.want, l.LastTimestamp())
		}
		require.NoError(t, l.Flush())
		require.NoError(t, l.Close())
		c.set(5)
		l = start(t, cfg)
		require.Equal(t, int64(1001), add(t, l, n, 100, 'A').StoreTimestamp, "after a restart neither")
	})
}

func TestStagedAndDirectWriteTheSameBytes(t *testing.T) {
	var images []map[string]string
	for _, staged := range []bool{false, true} {
		cfg := config(t, staged)
		cfg.FileSize = 4096
		l := start(t, cfg)
		c := NewCounter(0)
		for i, size := range []int{100, 1000, 92, 2888, 4088, 2044, 2044, 300, 4000, 95} {
			add(t, l, c, size, byte('A'+i))
			if i%3 == 2 {
				require.NoError(t, l.Flush())
			}
			var b Batch
			require.NoError(t, b.Encode(batchOf(t, 3, 110+i), message.Host{}, 1<<20, 1<<20, false))
			_, err := l.AppendBatch(context.Background(), &b, c)
			require.NoError(t, err)
		}
		require.NoError(t, l.Flush())
		require.NoError(t, l.Close())
		images = append(images, content(t, cfg.Dir))
	}
	require.Equal(t, images[0], images[1])
	require.Greater(t, len(images[0]), 4)
}

func TestWhenRecordsBecomeVisible(t *testing.T) {
	t.Run("direct: at once", func(t *testing.T) {
		l := start(t, config(t, false))
		c := NewCounter(0)
		p := add(t, l, c, 100, 'A')
		require.Equal(t, p.End(), l.Visible())
		require.Zero(t, l.Durable())
		require.NoError(t, l.Wait(context.Background(), p, 0), "waits for nothing")
		require.Equal(t, []string{"0:0:A"}, scanned(t, l))
		require.NoError(t, l.Flush())
		require.Equal(t, p.End(), l.Durable())
	})
	t.Run("staged: after Flush", func(t *testing.T) {
		cfg := config(t, true)
		l := start(t, cfg)
		c := NewCounter(0)
		p := add(t, l, c, 100, 'A')
		require.Zero(t, l.Visible())
		require.Empty(t, scanned(t, l))
		f := l.Acquire(0)
		require.NotNil(t, f)
		defer f.Unpin()
		_, err := l.Read(f, 0, true)
		require.ErrorIs(t, err, message.ErrOffsetNotFound)
		require.Equal(t, make([]byte, 1024), peek(t, cfg, 0, 1024), "nothing of it is in the file")
		require.ErrorIs(t, l.Wait(context.Background(), p, 0), message.ErrFlushTimeout)
		require.NoError(t, l.Flush())
		require.NoError(t, l.Wait(context.Background(), p, 0))
		require.Equal(t, p.End(), l.Visible())
		require.Equal(t, p.End(), l.Durable())
		require.Equal(t, []string{"0:0:A"}, scanned(t, l))
	})
}

// batchOf returns a batch of n elements whose records take size bytes each.
func batchOf(t *testing.T, n, size int) *message.MessageExtBatch {
	t.Helper()
	b := &message.MessageExtBatch{}
	b.Topic, b.QueueID = "T", 3
	for i := range n {
		m := msg(size, byte('a'+i))
		var err error
		b.Body, err = message.AppendBatchElement(b.Body, &m.Message)
		require.NoError(t, err)
	}
	return b
}

func TestBatchStandsTogetherInOneFile(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		l := start(t, cfg)
		c := NewCounter(2)
		add(t, l, c, 500, 'A')
		var b Batch
		require.NoError(t, b.Encode(batchOf(t, 5, 110), message.Host{}, 1<<20, 1<<20, false))
		p, err := l.AppendBatch(context.Background(), &b, c)
		require.NoError(t, err)
		require.Equal(t, 5, b.Len())
		require.Equal(t, message.LogOffset(1024), p.LogOffset, "550 do not fit behind 500")
		require.Equal(t, message.QueueOffset(3), p.QueueOffset)
		require.Equal(t, 550, p.Bytes)
		require.Equal(t, []message.LogOffset{1024, 1134, 1244, 1354, 1464}, b.LogOffsets(p.LogOffset))
		add(t, l, c, 100, 'Z')
		require.NoError(t, l.Flush())
		require.Equal(t, []string{"0:2:A", "1024:3:a", "1134:4:b", "1244:5:c", "1354:6:d", "1464:7:e", "1574:8:Z"}, scanned(t, l))
		require.Equal(t, "0000020ccbd43194", hex.EncodeToString(peek(t, cfg, 500, 8)))

		// the same buffer again, exactly filling the rest of the file
		require.NoError(t, b.Encode(batchOf(t, 2, (2048-8-1674)/2), message.Host{}, 1<<20, 1<<20, false))
		p, err = l.AppendBatch(context.Background(), &b, c)
		require.NoError(t, err)
		require.Equal(t, message.LogOffset(1674), p.LogOffset)
		require.Equal(t, message.LogOffset(2040), p.End())
		require.Equal(t, message.QueueOffset(11), l.Next(c))
		require.NoError(t, l.Flush())
	})
}

func TestBatchRecordEqualsSingleRecord(t *testing.T) {
	props, err := message.NewProperties("TAGS", "x")
	require.NoError(t, err)
	common, err := message.NewProperties("K", "v")
	require.NoError(t, err)
	host, _ := message.ParseHost("10.0.0.9:1")
	single, batch := config(t, false), config(t, false)
	one, many := start(t, single), start(t, batch)
	c1, c2 := NewCounter(0), NewCounter(0)

	m := msg(150, 'A')
	m.BornTimestamp, m.Flag, m.ReconsumeTimes, m.StoreHost = 77, 5, 2, host
	m.Properties = message.JoinProperties(props, common)
	_, err = one.Append(context.Background(), m, c1)
	require.NoError(t, err)

	b := &message.MessageExtBatch{}
	b.MessageExt = *m
	b.StoreHost, b.PreparedTransactionOffset, b.Properties = message.Host{}, 99, common
	b.Body, err = message.AppendBatchElement(nil, &message.Message{Flag: 5, Body: m.Body, Properties: props})
	require.NoError(t, err)
	var enc Batch
	require.NoError(t, enc.Encode(b, host, 1<<20, 1<<20, false))
	_, err = many.AppendBatch(context.Background(), &enc, c2)
	require.NoError(t, err)
	require.Equal(t, peek(t, single, 0, 1024), peek(t, batch, 0, 1024))
}

func TestBatchThatCannotBeEncodedIsEmpty(t *testing.T) {
	var b Batch
	good := batchOf(t, 3, 120)
	require.NoError(t, b.Encode(good, message.Host{}, 100, 360, false))
	require.Equal(t, 3, b.Len())

	require.ErrorIs(t, b.Encode(good, message.Host{}, 27, 360, false), message.ErrLimit, "a body")
	require.Zero(t, b.Len())
	require.Empty(t, b.LogOffsets(5))
	err := b.Encode(good, message.Host{}, 100, 359, false)
	require.ErrorIs(t, err, message.ErrLimit, "all records")
	require.ErrorContains(t, err, "batch element 2")
	require.Zero(t, b.Len())

	torn := batchOf(t, 3, 120)
	torn.Body = torn.Body[:len(torn.Body)-1]
	require.ErrorIs(t, b.Encode(torn, message.Host{}, 100, 1000, false), message.ErrCorrupt)
	require.Zero(t, b.Len())

	long := batchOf(t, 1, 120)
	long.Properties = message.Properties(strings.Repeat("x", message.MaxPropertiesLength+1))
	require.ErrorIs(t, b.Encode(long, message.Host{}, 100, 1<<20, false), message.ErrLimit)
	require.Zero(t, b.Len())
}

func TestFullDiskIsAnErrorThatPasses(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		for _, op := range []string{"allocate", "create"} {
			fsys := newFaultFS()
			cfg := config(t, staged)
			cfg.FS = fsys
			fsys.set(func(o, path string) error {
				if o == op && !strings.HasSuffix(path, segment.FileName(0)) {
					return segment.ErrNoSpace
				}
				return nil
			})
			l := start(t, cfg)
			c := NewCounter(0)
			want := []string{"0:0:A", "300:1:B", "600:2:C"}
			for i := range 3 {
				add(t, l, c, 300, byte('A'+i))
			}
			for range 5 {
				_, err := l.Append(context.Background(), msg(300, 'x'), c)
				require.ErrorIs(t, err, segment.ErrNoSpace)
				require.NoError(t, l.Refusal(), "not final")
				require.NoError(t, l.Flush())
				require.Equal(t, want, scanned(t, l), "reads go on")
			}
			p := add(t, l, c, 100, 'D') // what fits is still taken
			require.Equal(t, message.LogOffset(900), p.LogOffset)
			fsys.set(nil)
			p = add(t, l, c, 300, 'E')
			require.Equal(t, message.LogOffset(1024), p.LogOffset)
			require.Equal(t, message.QueueOffset(4), p.QueueOffset)
			require.NoError(t, l.Flush())
			require.Equal(t, append(want, "900:3:D", "1024:4:E"), scanned(t, l))
			require.NoError(t, l.Close())
		}
	})
}

func TestWaitForRoomEndsWithContext(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		fsys := newFaultFS()
		cfg := config(t, staged)
		cfg.FS = fsys
		l := start(t, cfg)
		c := NewCounter(0)
		add(t, l, c, 1000, 'A')
		release := make(chan struct{})
		fsys.set(func(op, _ string) error {
			if op == "allocate" {
				<-release
			}
			return nil
		})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var err error
		for err == nil {
			_, err = l.Append(ctx, msg(1000, 'x'), c)
		}
		require.ErrorIs(t, err, context.Canceled)
		close(release)
		next := l.Next(c)
		p := add(t, l, c, 1000, 'B')
		require.Equal(t, next, p.QueueOffset)
		require.Equal(t, message.LogOffset(1024*int64(next)), p.LogOffset)
	})
}

func TestAppendsWaitingForRoomAreToldOfClose(t *testing.T) {
	fsys := newFaultFS()
	cfg := config(t, false)
	cfg.FS = fsys
	l := start(t, cfg)
	c := NewCounter(0)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fsys.set(func(op, _ string) error {
		if op == "allocate" {
			once.Do(func() { close(entered) })
			<-release
		}
		return nil
	})
	failed := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = l.Append(context.Background(), msg(1000, 'x'), c)
		}
		failed <- err
	}()
	<-entered
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	for l.Refusal() == nil { // until Close has begun
		runtime.Gosched()
	}
	close(release)
	require.ErrorIs(t, <-failed, message.ErrClosed)
	require.NoError(t, <-closed)
}

func TestSealRefusesAppendsAndFlushesTheRest(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		l := start(t, config(t, staged))
		c := NewCounter(0)
		p := add(t, l, c, 100, 'A')
		require.NoError(t, l.Refusal())
		l.Seal()
		l.Seal()
		_, err := l.Append(context.Background(), msg(100, 'B'), c)
		require.ErrorIs(t, err, message.ErrClosed)
		require.ErrorIs(t, l.Refusal(), message.ErrClosed)
		require.NoError(t, l.Flush())
		require.Equal(t, p.End(), l.Durable())
		require.Equal(t, []string{"0:0:A"}, scanned(t, l))
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		require.NoError(t, l.Flush(), "nothing was left to sync")
		_, err = l.Scan(0, p.End(), nil)
		require.ErrorIs(t, err, message.ErrOffsetNotFound)
		require.Nil(t, l.Acquire(0))
	})
}

func TestCloseWithoutFlushIsNoSync(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		l := start(t, cfg)
		p := add(t, l, NewCounter(0), 100, 'A')
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Flush(), message.ErrClosed, "it was not synced, and nobody may think so")
		require.Zero(t, l.Durable())
		if staged {
			require.ErrorIs(t, l.Wait(context.Background(), p, 1<<40), message.ErrClosed)
			require.Empty(t, scanned(t, start(t, cfg)), "what was not synced is nowhere")
		} else {
			require.Equal(t, []string{"0:0:A"}, scanned(t, start(t, cfg)))
		}
	})
}

func TestCloseRemovesFilesMadeAhead(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		build(t, cfg, 1016, 1016)
		require.Len(t, content(t, cfg.Dir), 2)
	})
}

func TestCloseDuringAppendsAndReads(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		cfg.FileSize = 16 << 10
		l := start(t, cfg)
		var writers, others sync.WaitGroup
		var counters [4]*Counter
		var accepted [4]int
		for i := range counters {
			counters[i] = NewCounter(0)
			writers.Go(func() {
				for {
					m := msg(200, 'A'+byte(i))
					m.QueueID = int32(i)
					p, err := l.Append(context.Background(), m, counters[i])
					if err != nil {
						require.ErrorIs(t, err, message.ErrClosed)
						return
					}
					require.Equal(t, message.QueueOffset(accepted[i]), p.QueueOffset)
					accepted[i]++
				}
			})
		}
		for range 2 {
			others.Go(func() {
				for l.Refusal() == nil {
					if err := l.Flush(); err != nil {
						require.ErrorIs(t, err, message.ErrClosed)
					}
					runtime.Gosched()
				}
			})
			others.Go(func() {
				for l.Refusal() == nil {
					off := l.MinOffset()
					_, err := l.Scan(off, l.Visible(), func(*message.DispatchRequest) error { return nil })
					if err != nil {
						require.ErrorIs(t, err, message.ErrOffsetNotFound)
					}
					runtime.Gosched()
				}
			})
		}
		for l.Visible() < 200_000 {
			require.NoError(t, l.Flush())
		}
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(l.Seal)
			closers.Go(func() { require.NoError(t, l.Close()) })
		}
		closers.Wait()
		writers.Wait()
		others.Wait()
		if staged {
			return // the last group may be nowhere
		}
		var found [4]int
		for _, r := range scanned(t, start(t, cfg)) {
			found[r[len(r)-1]-'A']++
		}
		require.Equal(t, accepted, found)
	})
}

func TestAppendAllocatesNothing(t *testing.T) {
	cfg := config(t, false)
	cfg.FileSize = 16 << 20
	l := start(t, cfg)
	c := NewCounter(0)
	m := msg(300, 'A')
	ctx := context.Background()
	appendOne := func() {
		if _, err := l.Append(ctx, m, c); err != nil {
			t.Fatal(err)
		}
	}
	appendOne()
	require.Zero(t, testing.AllocsPerRun(500, appendOne))
	var b Batch
	batch := batchOf(t, 4, 200)
	require.NoError(t, b.Encode(batch, message.Host{}, 1<<20, 1<<20, false))
	require.Zero(t, testing.AllocsPerRun(500, func() {
		if _, err := l.AppendBatch(ctx, &b, c); err != nil {
			t.Fatal(err)
		}
	}))
}

func TestOpenReportsWhatIsNoLog(t *testing.T) {
	cfg := config(t, false)
	cfg.FileSize = 0
	_, err := Open(cfg)
	require.ErrorIs(t, err, segment.ErrUnknownSize)
	cfg.FileSize = 1024
	build(t, cfg, repeat(8, 200)...)
	cfg.FileSize = 2048
	_, err = Open(cfg)
	require.ErrorIs(t, err, segment.ErrFileSize)
	cfg.FileSize = 0
	l := load(t, cfg)
	require.Equal(t, int64(1024), l.FileSize(), "taken from the files")
	require.Equal(t, message.LogOffset(2048), l.NextFile(1024))
	require.NoError(t, l.CheckInPlace())
	poke(t, Config{Dir: cfg.Dir, FileSize: 1024}, 0, bytes.Repeat([]byte{1}, 8)) // damage is not Open's business
}
