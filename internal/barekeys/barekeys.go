// Package barekeys turns the configuration files of RocketMQ into JSON: fastjson
// writes maps with integer keys without quotation marks, which no JSON reader
// takes.
//
//	{"offsetTable":{"orders@billing":{0:120,1:118}}}
package barekeys

// Quote puts quotation marks around keys that are bare integers. Text that is no
// JSON otherwise is left so.
func Quote(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	var inObject []bool // for each bracket that is open
	key := false        // the next token is a key
	for len(text) > 0 {
		n := TokenLen(text)
		token := text[:n]
		text = text[n:]
		switch c := token[0]; {
		case c == '{', c == '[':
			inObject = append(inObject, c == '{')
			key = c == '{'
		case c == '}', c == ']':
			inObject = inObject[:max(0, len(inObject)-1)]
			key = false
		case c == ',':
			key = len(inObject) > 0 && inObject[len(inObject)-1]
		case c == ' ', c == '\t', c == '\r', c == '\n':
		case key && (isDigit(c) || c == '-'):
			out = append(out, '"')
			out = append(out, token...)
			token = []byte{'"'}
			key = false
		default:
			key = false
		}
		out = append(out, token...)
	}
	return out
}

// TokenLen is the length of the string or integer at the start of text, 1 for
// any other character.
func TokenLen(text []byte) int {
	n := 1
	switch c := text[0]; {
	case c == '"':
		for n < len(text) && text[n] != '"' {
			if text[n] == '\\' {
				n++
			}
			n++
		}
		return min(n+1, len(text))
	case isDigit(c), c == '-':
		for n < len(text) && isDigit(text[n]) {
			n++
		}
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
