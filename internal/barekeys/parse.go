package barekeys

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how many brackets may be open at once; that of encoding/json.
const maxDepth = 10000

// Parse reads one object, with keys that are strings or bare integers, and nothing
// behind it. Values are map[string]any, []any, string, bool, nil, and json.Number;
// of equal keys the last counts. It takes and gives what encoding/json does with
// UseNumber, whose decoder would add 140 kB to each program with this module.
func Parse(text []byte) (map[string]any, error) {
	p := parser{text: text}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not an object")
	}
	if p.next(); p.at < len(text) {
		return nil, fmt.Errorf("text behind the end, at byte %d", p.at)
	}
	return o, nil
}

// parser is at a byte of text.
type parser struct {
	text []byte
	at   int
}

// next goes to the next byte that is no white space, and returns it; 0 at the end.
func (p *parser) next() byte {
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// wants is the error for text that has something else here.
func (p *parser) wants(what string) error {
	if p.at >= len(p.text) {
		return fmt.Errorf("the text ends at byte %d, before %s", p.at, what)
	}
	return fmt.Errorf("%q at byte %d instead of %s", p.text[p.at], p.at, what)
}

func (p *parser) value(depth int) (any, error) {
	c := p.next()
	switch {
	case depth > maxDepth:
		return nil, p.wants("an end: more than " + strconv.Itoa(maxDepth) + " brackets are open")
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"':
		return p.string()
	case c == '-', isDigit(c):
		return p.number()
	}
	for word, v := range map[string]any{"true": true, "false": false, "null": nil} {
		if bytes.HasPrefix(p.text[p.at:], []byte(word)) {
			p.at += len(word)
			return v, nil
		}
	}
	return nil, p.wants("a value")
}

func (p *parser) object(depth int) (map[string]any, error) {
	o := map[string]any{}
	err := p.elements('}', func() error {
		key, err := p.key()
		if err != nil {
			return err
		}
		if p.next() != ':' {
			return p.wants("':'")
		}
		p.at++
		o[key], err = p.value(depth + 1)
		return err
	})
	return o, err
}

func (p *parser) list(depth int) ([]any, error) {
	list := []any{}
	err := p.elements(']', func() error {
		v, err := p.value(depth + 1)
		list = append(list, v)
		return err
	})
	return list, err
}

// elements calls read at each element, up to the bracket that ends them.
func (p *parser) elements(end byte, read func() error) error {
	p.at++
	if p.next() == end {
		p.at++
		return nil
	}
	for {
		if err := read(); err != nil {
			return err
		}
		switch p.next() {
		case ',':
			p.at++
		case end:
			p.at++
			return nil
		default:
			return p.wants("',' or '" + string(end) + "'")
		}
	}
}

func (p *parser) key() (string, error) {
	switch c := p.next(); {
	case c == '"':
		return p.string()
	case c == '-', isDigit(c):
		key := p.text[p.at:][:TokenLen(p.text[p.at:])]
		p.at += len(key)
		return string(key), nil
	}
	return "", p.wants("a key")
}

// number reads -1, 0.5 or 1e+9, as it is written.
func (p *parser) number() (json.Number, error) {
	from := p.at
	p.take("-")
	whole := p.at
	if !p.digits() {
		return "", p.wants("a digit")
	}
	if p.text[whole] == '0' && p.at > whole+1 {
		p.at = whole + 1
		return "", p.wants("the end of a number that begins with 0")
	}
	if p.take(".") && !p.digits() {
		return "", p.wants("a digit")
	}
	if p.take("eE") {
		p.take("+-")
		if !p.digits() {
			return "", p.wants("a digit")
		}
	}
	return json.Number(p.text[from:p.at]), nil
}

// take goes behind one of the characters, if there is one here.
func (p *parser) take(oneOf string) bool {
	if p.at == len(p.text) || strings.IndexByte(oneOf, p.text[p.at]) < 0 {
		return false
	}
	p.at++
	return true
}

func (p *parser) digits() (some bool) {
	for p.take("0123456789") {
		some = true
	}
	return some
}

// string reads what is within quotation marks. What is no UTF-8 becomes U+FFFD.
func (p *parser) string() (string, error) {
	var s []byte
	for p.at++; p.at < len(p.text) && p.text[p.at] >= ' '; {
		c := p.text[p.at]
		switch {
		case c == '"':
			p.at++
			return string([]rune(string(s))), nil
		case c != '\\':
			s = append(s, c)
			p.at++
			continue
		}
		p.at++
		r, ok := p.escaped()
		if !ok {
			return "", p.wants("an escape")
		}
		s = utf8.AppendRune(s, r)
	}
	return "", p.wants("the end of a string")
}

// escaped reads what follows a backslash.
func (p *parser) escaped() (r rune, ok bool) {
	if r, ok = p.unicode(); ok {
		if second := p.at + 1; utf16.IsSurrogate(r) && p.take(`\`) {
			low, _ := p.unicode()
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				p.at = second - 1 // alone; what follows it stands for itself
			}
		}
		return r, true
	}
	const letters, meaning = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if p.at == len(p.text) {
		return 0, false
	}
	i := strings.IndexByte(letters, p.text[p.at])
	if i < 0 {
		return 0, false
	}
	p.at++
	return rune(meaning[i]), true
}

// unicode reads u and four hex digits.
func (p *parser) unicode() (r rune, ok bool) {
	if len(p.text)-p.at < 5 || p.text[p.at] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.text[p.at+1:p.at+5]), 16, 16)
	if err != nil {
		return 0, false
	}
	p.at += 5
	return rune(n), true
}
