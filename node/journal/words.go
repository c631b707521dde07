package journal

import (
	"fmt"
	"reflect"
	"strings"

	"tidemark/node/replica"
)

// Words is a message for people: its name, its partition, and the fields that say something. Of a batch it has the fields, and how
// many bytes there are.
func Words(m replica.Message) string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(m.String(), "#0")) // events, and what a node says to itself
	if m.Partition != (replica.Partition{}) {
		fmt.Fprintf(&b, " of %s", m.Partition)
	}
	fields(&b, reflect.ValueOf(m.Body).Elem())
	return b.String()
}

// fields writes the fields of a struct that are not zero.
func fields(b *strings.Builder, v reflect.Value) {
	sep := " ("
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		fmt.Fprintf(b, "%s%s ", sep, v.Type().Field(i).Name)
		value(b, v.Field(i))
		sep = ", "
	}
	if sep != " (" {
		b.WriteString(")")
	}
}

func value(b *strings.Builder, v reflect.Value) {
	switch x := v.Interface().(type) {
	case []byte:
		fmt.Fprintf(b, "%d bytes", len(x))
		return
	case fmt.Stringer:
		b.WriteString(x.String())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		value(b, v.Elem())
	case reflect.Struct:
		var inner strings.Builder
		fields(&inner, v)
		b.WriteString(strings.TrimSpace(inner.String()))
	case reflect.Slice:
		b.WriteString("[")
		for i := range v.Len() {
			if i > 0 {
				b.WriteString(" ")
			}
			value(b, v.Index(i))
		}
		b.WriteString("]")
	default:
		fmt.Fprintf(b, "%v", v)
	}
}
