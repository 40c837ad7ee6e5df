package beadlock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// ErrMalformed is the error of [Parse] for bytes that are not a JSON object, or a field of a wrong type.
var ErrMalformed = errors.New("malformed lock file")

// ErrInvalid is the error of [Parse] for an object without a holder, a positive PID, a host name or a time.
var ErrInvalid = errors.New("invalid lock file")

// nesting is the deepest nesting that is read. Go's own limit is 10000.
const nesting = 128

// Record is the content of a lock file. Whoever may write the directory has chosen it: [Decision.String] escapes what it
// shows, and your own lines should use %q.
type Record struct {
	Holder    string    // the name of the holder
	PID       int64     // the process that the claim stands and falls with
	Hostname  string    // the machine on which that PID means something
	StartedAt time.Time // since when
	Version   string    // of the holder; may be empty

	mark mark
}

// mark tells machines, boots and PID namespaces apart, in the key "beadlock". An empty part is unknown.
type mark struct {
	machineID, bootID, pidNS string
}

// instant is a time as Go up to 1.19 reads it: later versions refuse a one-digit hour, a comma and some offsets.
type instant struct{ time.Time }

func (t *instant) UnmarshalJSON(literal []byte) error {
	if string(literal) == "null" {
		return nil
	}
	at, err := time.Parse(`"`+time.RFC3339+`"`, string(literal))
	if err != nil {
		return fmt.Errorf("started_at must be an RFC 3339 time, not %s", shown(string(literal), 40))
	}
	t.Time = at
	return nil
}

// Parse reads and validates the content of a lock file, as encoding/json reads it: keys in any case, unknown ones ignored,
// the last duplicate wins. The error is [ErrMalformed] or [ErrInvalid], with what is wrong; leave the database alone then.
func Parse(data []byte) (*Record, error) {
	if nestsTooDeeply(data) {
		return nil, fmt.Errorf("%w: nested too deeply", ErrMalformed)
	}
	var fields struct {
		Holder    string  `json:"holder"`
		PID       int64   `json:"pid"`
		Hostname  string  `json:"hostname"`
		StartedAt instant `json:"started_at"`
		Version   string  `json:"version"`
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		words := err.Error()
		if words == "unexpected end of JSON input" {
			words = "unexpected EOF"
		}
		return nil, fmt.Errorf("%w: %s", ErrMalformed, words)
	}
	switch {
	case fields.Holder == "":
		return nil, fmt.Errorf("%w: holder must not be empty", ErrInvalid)
	case fields.PID <= 0:
		return nil, fmt.Errorf("%w: pid must be positive (got %d)", ErrInvalid, fields.PID)
	case fields.Hostname == "":
		return nil, fmt.Errorf("%w: hostname must not be empty", ErrInvalid)
	case fields.StartedAt.IsZero():
		return nil, fmt.Errorf("%w: started_at must be set", ErrInvalid)
	}
	return &Record{
		fields.Holder, fields.PID, fields.Hostname, fields.StartedAt.Time, fields.Version, parseMark(data),
	}, nil
}

// parseMark reads each part by itself: a part more only makes a check more careful.
func parseMark(data []byte) mark {
	var keys, parts map[string]json.RawMessage
	_ = json.Unmarshal(data, &keys)
	_ = json.Unmarshal(keys["beadlock"], &parts)
	text := func(key string) (value string) {
		_ = json.Unmarshal(parts[key], &value)
		return value
	}
	return mark{text("machine_id"), text("boot_id"), text("pid_ns")}
}

func nestsTooDeeply(data []byte) bool {
	depth := 0
	for tokens := json.NewDecoder(bytes.NewReader(data)); ; {
		token, err := tokens.Token()
		if err != nil {
			return false // Unmarshal says what is wrong.
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > nesting {
			return true
		}
	}
}

// shown escapes what ends a line, moves the cursor, hides, or turns the reading direction, and cuts after limit
// characters.
func shown(name string, limit int) string {
	var line strings.Builder
	count := 0
	for _, c := range name {
		switch {
		case count == limit:
			return line.String() + "…"
		case c == '\t' || c == '\n' || c == '\r':
			line.WriteString(map[rune]string{'\t': `\t`, '\n': `\n`, '\r': `\r`}[c])
		case unicode.Is(unicode.Cc, c) || unicode.Is(hidden, c):
			fmt.Fprintf(&line, `\u{%x}`, c)
		default:
			line.WriteRune(c)
		}
		count++
	}
	return line.String()
}

// hidden has what is neither a control character nor to be shown.
var hidden = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x061c, 0x061c, 1},
		{0x200b, 0x200f, 1},
		{0x2028, 0x202e, 1},
		{0x2060, 0x206f, 1},
		{0xfeff, 0xfeff, 1},
		{0xfff9, 0xfffb, 1},
	},
	R32: []unicode.Range32{{0xe0000, 0xe007f, 1}},
}
