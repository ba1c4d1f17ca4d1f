package repair

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/internal/barekeys"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// Lowered is an offset that was changed in a file of config/.
type Lowered struct {
	File    string // its name
	Key     string // topic@group; "" in delayOffset.json
	QueueID int32  // or the delay level
	From    message.QueueOffset
	To      message.QueueOffset
}

// lowerOffsets lowers consumer offsets that lie behind the ends of their queues.
func (r *repair) lowerOffsets(s *store.DefaultMessageStore) error {
	for name, maxOf := range map[string]func(key string, id int32) message.QueueOffset{
		"consumerOffset.json": func(key string, id int32) message.QueueOffset {
			topic, _, _ := strings.Cut(key, "@")
			return s.MaxOffsetInQueue(topic, id)
		},
		"delayOffset.json": func(_ string, level int32) message.QueueOffset {
			return s.MaxOffsetInQueue(message.ScheduleTopic, level-1)
		},
	} {
		text, err := s.ReadConfig(name, func([]byte) error { return nil })
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		lower := lowerer{file: name, text: text, maxOf: maxOf}
		lower.run()
		if len(lower.lowered) == 0 {
			continue
		}
		r.report.Lowered = append(r.report.Lowered, lower.lowered...)
		for range 2 { // the version before becomes the .bak
			if err := s.WriteConfig(name, lower.out); err != nil {
				return err
			}
		}
	}
	return nil
}

// lowerer copies the text of a file of offsets, token by token, and lowers those
// that are too high. The rest of the text stays as it is.
//
//	{"offsetTable":{"topic@group":{0:120,1:118}}}
//	{"offsetTable":{1:40,3:7}}
type lowerer struct {
	file  string
	text  []byte
	maxOf func(key string, id int32) message.QueueOffset

	out     []byte
	keys    []string // of the objects that are open; the last is that of the value to come
	lowered []Lowered
}

func (l *lowerer) run() {
	isKey := false
	for text := l.text; len(text) > 0; {
		n := barekeys.TokenLen(text)
		token := text[:n]
		text = text[n:]
		switch c := token[0]; {
		case c == '{':
			l.keys, isKey = append(l.keys, ""), true
		case c == '}':
			l.keys, isKey = l.keys[:max(0, len(l.keys)-1)], false
		case c == ',':
			isKey = true
		case c == ':':
			isKey = false
		case isKey && len(l.keys) > 0 && (c == '"' || c >= '0' && c <= '9'):
			l.keys[len(l.keys)-1] = strings.Trim(string(token), `"`)
		case c >= '0' && c <= '9':
			token = l.lower(token)
		}
		l.out = append(l.out, token...)
	}
}

// lower returns the number that the value with l.keys should be.
func (l *lowerer) lower(token []byte) []byte {
	depth := len(l.keys)
	if depth < 2 || l.keys[0] != "offsetTable" {
		return token
	}
	key := ""
	if depth == 3 {
		key = l.keys[1]
	}
	id, err := strconv.ParseInt(l.keys[depth-1], 10, 32)
	at, err2 := strconv.ParseInt(string(token), 10, 64)
	if err != nil || err2 != nil || (key == "") != (l.file == "delayOffset.json") {
		return token
	}
	end := l.maxOf(key, int32(id))
	if message.QueueOffset(at) <= end {
		return token
	}
	l.lowered = append(l.lowered, Lowered{File: l.file, Key: key, QueueID: int32(id), From: message.QueueOffset(at), To: end})
	return strconv.AppendInt(nil, int64(end), 10)
}
