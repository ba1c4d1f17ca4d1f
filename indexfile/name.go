package indexfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fileName is the local time, yyyyMMddHHmmssSSS, 17 digits.
func fileName(t time.Time) string {
	return strings.Replace(t.Format("20060102150405.000"), ".", "", 1)
}

// isFileName reports whether RocketMQ takes name for that of an index file: any
// integer. The number means nothing; the order of the names is that of the files.
func isFileName(name string) bool {
	_, err := strconv.ParseInt(name, 10, 64)
	return err == nil
}

// nameAfter is the name of a file made at t that sorts after last, which may be
// empty: the clock may stand still, or have been set back.
func nameAfter(last string, t time.Time) (string, error) {
	name := fileName(t)
	if name <= last {
		name = increment(last)
	}
	if name <= last || !isFileName(name) {
		return "", fmt.Errorf("no file name sorts after %q", last)
	}
	return name, nil
}

// increment adds one to a number of digits, and lengthens one of nines.
func increment(digits string) string {
	b := []byte(digits)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != '9' {
			b[i]++
			return string(b)
		}
		b[i] = '0'
	}
	return digits + "0"
}
