package workload

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// padding fills values up to their size on the wire. No name of a value contains it.
	padding = '.'
	// maxValueSize keeps a value inside Kafka's default message.max.bytes.
	maxValueSize = 1 << 20 * 9 / 10
)

// processName names a process in its values, so that a value tells whose it is: a, b, ... z, aa, ab, ... Followed by a number, no
// two names make the same value.
func processName(process int64) string {
	var b [16]byte
	i := len(b)
	for n := process + 1; n > 0; n = (n - 1) / 26 {
		i--
		b[i] = byte('a' + (n-1)%26)
	}
	return string(b[i:])
}

func valueName(process string, n int64) string { return process + strconv.FormatInt(n, 10) }

// pad makes a value as large as the wire is to have it.
func pad(value string, size int) string {
	if len(value) >= size {
		return value
	}
	return value + strings.Repeat(string(padding), size-len(value))
}

// unpad is the value of a record in the history. Bytes that are not exactly what pad makes are kept, so that a damaged value is
// seen as a value that nobody appended; what is not text is quoted, since a history has only text.
func unpad(value []byte, size int) string {
	if size > 0 && len(value) == size {
		value = bytes.TrimRight(value, string(padding))
	}
	if !utf8.Valid(value) {
		return strconv.QuoteToASCII(string(value))
	}
	return string(value)
}
