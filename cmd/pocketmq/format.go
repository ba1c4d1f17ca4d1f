package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pocketmq/pocketmq"
)

// printer writes a message in one of the forms.
type printer func(io.Writer, *pocketmq.MessageExt) error

func printRaw(w io.Writer, m *pocketmq.MessageExt) error {
	_, err := w.Write(m.Body)
	return err
}

// printText writes queue, offset, time, tag, keys and body. A body is quoted
// when it would not be readable, but for the newline at its end, which is left
// out.
func printText(w io.Writer, m *pocketmq.MessageExt) error {
	keys, _ := m.Properties.Get("KEYS")
	body := string(bytes.TrimSuffix(m.Body, []byte("\n")))
	if !readable(body) {
		body = strconv.Quote(string(m.Body))
	}
	_, err := fmt.Fprintf(w, "%d %d %s tag=%s keys=%s %s\n", m.QueueID, m.QueueOffset, timeText(m.StoreTimestamp), word(m.Tags()), word(keys), body)
	return err
}

// readable reports whether text can be shown as it is.
func readable(text string) bool {
	if text == "" || !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if !unicode.IsPrint(r) && r != '\t' {
			return false
		}
	}
	return text[0] != '"'
}

// word is text as one word.
func word(text string) string {
	if text == "" || readable(text) && !bytes.ContainsAny([]byte(text), " \t") {
		return text
	}
	return strconv.Quote(text)
}

func timeText(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// jsonMessage is the JSON form of a message.
type jsonMessage struct {
	Topic      string            `json:"topic"`
	Queue      int32             `json:"queue"`
	Offset     int64             `json:"offset"`
	LogOffset  int64             `json:"logOffset"`
	Time       string            `json:"time"`
	Tag        string            `json:"tag,omitempty"`
	Keys       []string          `json:"keys,omitempty"`
	Properties map[string]string `json:"properties,omitempty"`
	jsonBody
}

// jsonBody is a body in JSON: its text, or when it is not UTF-8 its bytes.
type jsonBody struct {
	Body      *string `json:"body,omitempty"`
	BodyBytes []byte  `json:"bodyBase64,omitempty"`
}

func bodyInJSON(body []byte) jsonBody {
	if !utf8.Valid(body) {
		return jsonBody{BodyBytes: body}
	}
	text := string(body)
	return jsonBody{Body: &text}
}

func printJSON(w io.Writer, m *pocketmq.MessageExt) error {
	j := jsonMessage{
		Topic: m.Topic, Queue: m.QueueID, Offset: int64(m.QueueOffset), LogOffset: int64(m.LogOffset),
		Time: timeText(m.StoreTimestamp), Tag: m.Tags(), Keys: m.Keys(), Properties: map[string]string{},
		jsonBody: bodyInJSON(m.Body),
	}
	for name, value := range m.Properties.All() {
		j.Properties[name] = value
	}
	return encodeJSON(w, j, "")
}

// encodeJSON writes v and a newline.
func encodeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}
