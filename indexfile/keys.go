package indexfile

import (
	"bytes"

	"github.com/pocketmq/pocketmq/message"
)

// keys walks through the keys of a record: its unique key, then the pieces of
// KEYS between single spaces, empty ones left out. A key that occurs twice is
// indexed twice. Nothing is copied.
//
// Source: RocketMQ store/index/IndexService.java, buildIndex.
type keys struct{ unique, rest []byte }

func keysOf(m message.Marks) keys { return keys{m.UniqueKey, m.Keys} }

// none reports whether there is certainly none left.
func (k *keys) none() bool { return len(k.unique)+len(k.rest) == 0 }

// next returns the next key, nil at the end.
func (k *keys) next() []byte {
	if key := k.unique; len(key) > 0 {
		k.unique = nil
		return key
	}
	for len(k.rest) > 0 {
		key, rest, _ := bytes.Cut(k.rest, space)
		k.rest = rest
		if len(key) > 0 {
			return key
		}
	}
	return nil
}

var space = []byte{' '}

// HasKeys reports whether the record has entries in an index that is whole. One
// that was rolled back has none, whatever its keys.
func HasKeys(v message.View) bool {
	if v.SysFlag().Transaction() == message.TransactionRollback {
		return false
	}
	ks := keysOf(v.Marks())
	return ks.next() != nil
}

// HasKey reports whether the record is indexed under key.
func HasKey(v message.View, key string) bool {
	ks := keysOf(v.Marks())
	for k := ks.next(); k != nil; k = ks.next() {
		if string(k) == key {
			return true
		}
	}
	return false
}
