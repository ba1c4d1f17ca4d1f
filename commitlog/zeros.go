package commitlog

import (
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

var sectorOfZeros = strings.Repeat("\x00", sectorSize)

// legible gives back p in a form that recovery can tell from sectors that were
// never written, which read as zeros: see torn. Properties that end in a zero get
// a separator at the end, which every reader passes over. An error matching
// message.ErrIllegal refuses those that could fill a sector with zeros.
func legible(p message.Properties) (message.Properties, error) {
	if len(p) >= sectorSize && strings.Contains(string(p), sectorOfZeros) {
		return p, &message.IllegalError{Field: "properties", Reason: "have 512 zero bytes in a row, like a sector of the disk that was never written"}
	}
	if !strings.HasSuffix(string(p), "\x00") {
		return p, nil
	}
	if len(p) == message.MaxPropertiesLength {
		return p, &message.LimitError{Field: "properties (with a separator, as they end in a zero byte)", Limit: message.MaxPropertiesLength, Value: int64(len(p)) + 1}
	}
	return p + "\x02", nil
}
