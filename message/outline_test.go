package message_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/pocketmq/pocketmq/message"
)

// checkOutline compares every method of the View of a record's outline with that
// of the record's View.
func checkOutline(record message.View) error {
	dst := bytes.Repeat([]byte{0xA5}, len(record.Raw())+1)
	n := message.PutOutline(dst, record.Raw())
	if want := len(record.Raw()) - len(record.Body()); n != want {
		return fmt.Errorf("the outline takes %d bytes, not %d", n, want)
	}
	if rest := dst[n:]; len(bytes.Trim(rest, "\xA5")) > 0 {
		return fmt.Errorf("behind the outline was written: %x", rest)
	}
	outline := message.ReadOutline(dst[:n:n])
	if len(outline.Body()) > 0 || !bytes.Equal(outline.Raw(), dst[:n]) {
		return fmt.Errorf("body %x, raw %x", outline.Body(), outline.Raw())
	}
	got, want := reflect.ValueOf(outline), reflect.ValueOf(record)
	for i := range want.NumMethod() {
		name := want.Type().Method(i).Name
		switch name {
		case "Body", "Raw", "Check", "CheckBody", "CheckCRC32", "Message": // about the body
			continue
		case "Property":
			continue // takes a name
		}
		g, w := results(got.Method(i)), results(want.Method(i))
		if !reflect.DeepEqual(g, w) {
			return fmt.Errorf("%s is %v, not %v", name, g, w)
		}
	}
	return checkOutlineRest(outline, record)
}

func results(method reflect.Value) (all []any) {
	for _, v := range method.Call(nil) {
		all = append(all, v.Interface())
	}
	return all
}

// checkOutlineRest compares what has parameters, or the body in it.
func checkOutlineRest(outline, record message.View) error {
	for _, name := range []string{"", "TAGS", "KEYS", "UNIQ_KEY", "DELAY", message.PropertyCRC32, "none"} {
		g, ok := outline.Property(name)
		w, wantOK := record.Property(name)
		if ok != wantOK || !bytes.Equal(g, w) {
			return fmt.Errorf("property %s is %q, %t, not %q, %t", name, g, ok, w, wantOK)
		}
	}
	m := record.Message()
	m.Body = nil
	if got := outline.Message(); !reflect.DeepEqual(got, m) {
		return fmt.Errorf("message %+v, not %+v", got, m)
	}
	levels, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	if err != nil {
		return err
	}
	var g, w message.DispatchRequest
	g.Read(outline, levels)
	w.Read(record, levels)
	if g.TagsCode != w.TagsCode || !reflect.DeepEqual(g.Marks, w.Marks) {
		return fmt.Errorf("request %+v, not %+v", g, w)
	}
	return nil
}

// TestOutlineBytes is an outline typed by hand: the record's size and checksum
// stay, the body is gone and its length is 0.
func TestOutlineBytes(t *testing.T) {
	const head = "00000067 DAA320A7 68D0A20D 05060708 090A0B0C 0D0E0F1011121314 15161718191A1B1C 1D1E1F4D" +
		"2021222324252627 28292A2B 2C2D2E2F 3031323334353637 38393A3B 3C3D3E3F 40414243 4445464748494A4B"
	const tail = "03 612D62 0006 544147530178"
	record, outline := spaced(t, head+"00000003 515253"+tail), spaced(t, head+"00000000"+tail)
	dst := make([]byte, len(outline))
	if n := message.PutOutline(dst, record); n != len(outline) || !bytes.Equal(dst, outline) {
		t.Fatalf("%d bytes\n%x, want\n%x", n, dst, outline)
	}
	v := message.ReadOutline(outline)
	if v.Size() != 0x67 || v.BodyCRC() != 0x68D0A20D || string(v.Topic()) != "a-b" || string(v.Properties()) != "TAGS\x01x" {
		t.Errorf("size %d, checksum %08x, topic %q, properties %q", v.Size(), v.BodyCRC(), v.Topic(), v.Properties())
	}
	if allocs := testing.AllocsPerRun(100, func() {
		message.PutOutline(dst, record)
		message.ReadOutline(dst)
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func spaced(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOutlineOfRandomRecords: whatever the hosts and lengths are.
func TestOutlineOfRandomRecords(t *testing.T) {
	for range 500 {
		seed := rand.Uint64()
		m, crc := randomRecord(rand.New(rand.NewPCG(seed, 0)))
		trailer := message.Trailer{CRC: crc}
		b := make([]byte, m.RecordSizeWith(trailer))
		m.PutRecordWith(b, trailer)
		v, kind, err := message.ReadRecord(b)
		if kind != message.KindRecord {
			t.Fatalf("seed %d: %s, %v", seed, kind, err)
		}
		if err := checkOutline(v); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func randomRecord(rnd *rand.Rand) (m message.MessageExt, crc bool) {
	crc = rnd.IntN(2) == 0
	m = message.MessageExt{
		Message: message.Message{
			Topic:      strings.Repeat("t", pick(rnd, 0, 1, 127, 128, 255, rnd.IntN(256))),
			Flag:       int32(rnd.Uint32()),
			Body:       bytes.Repeat([]byte{byte(rnd.Uint32())}, pick(rnd, 0, 1, 1000, rnd.IntN(100_000))),
			Properties: randomProperties(rnd, pick(rnd, 0, 50, rnd.IntN(2000), message.MaxPropertiesLength)),
		},
		QueueID:                   int32(rnd.Uint32()),
		QueueOffset:               message.QueueOffset(rnd.Uint64()),
		LogOffset:                 message.LogOffset(rnd.Uint64()),
		SysFlag:                   message.SysFlag(rnd.Uint32()),
		BodyCRC:                   rnd.Uint32(),
		BornTimestamp:             int64(rnd.Uint64()),
		BornHost:                  randomHost(rnd),
		StoreTimestamp:            int64(rnd.Uint64()),
		StoreHost:                 randomHost(rnd),
		ReconsumeTimes:            int32(rnd.Uint32()),
		PreparedTransactionOffset: message.LogOffset(rnd.Uint64()),
	}
	if crc && len(m.Properties) > message.MaxPropertiesLength-21 { // a separator and the property
		m.Properties = m.Properties[:message.MaxPropertiesLength-21]
	}
	if rnd.IntN(8) == 0 {
		m.Topic = message.ScheduleTopic
	}
	return m, crc
}

func pick(rnd *rand.Rand, of ...int) int { return of[rnd.IntN(len(of))] }

// randomProperties returns n bytes, with some of the names that count if there is
// room for them.
func randomProperties(rnd *rand.Rand, n int) message.Properties {
	var p strings.Builder
	for _, i := range rnd.Perm(4) {
		if name := []string{"TAGS", "KEYS", "UNIQ_KEY", "DELAY"}[i]; rnd.IntN(3) > 0 && p.Len()+20 < n {
			fmt.Fprintf(&p, "%s\x01%d\x02", name, rnd.IntN(20))
		}
	}
	p.WriteString(strings.Repeat("p", n-p.Len()))
	return message.Properties(p.String())
}

func randomHost(rnd *rand.Rand) message.Host {
	var a [16]byte
	for i := range a {
		a[i] = byte(rnd.Uint32())
	}
	if rnd.IntN(2) == 0 {
		return message.Host{Addr: netip.AddrFrom16(a), Port: int32(rnd.Uint32())}
	}
	return message.Host{Addr: netip.AddrFrom4([4]byte(a[:4])), Port: int32(rnd.Uint32())}
}
