package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the longest name that is given to a tool or prompt whose own name cannot be used;
// clients demand as little (contract B4).
const maxName = 64

// maxOwnName is the longest legal name of a tool (2025-11-25, server/tools).
const maxOwnName = 128

// legal tells whether every client can be given the name as it is.
func legal(name string) bool {
	return name != "" && len(name) <= maxOwnName && clean(name) == name
}

// clean replaces what may not stand in a name.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, s)
}

// origin is where a name comes from.
type origin struct{ server, name string }

// expose gives each name its exposed one (contract B4): a legal name is kept by the server that sorts first,
// and always by the gateway's own; the others' become <server>_<name>, and where that is taken or too long, a
// piece of it with a hash. Names that were given before keep their meaning: given is read and added to. The
// origins come sorted by server, in each server's own order.
func expose(origins []origin, prefix map[string]string, given map[string]origin) map[origin]string {
	exposed := make(map[origin]string, len(origins))
	for name, o := range given {
		exposed[o] = name
	}
	out := make(map[origin]string, len(origins))
	take := func(o origin, name string) bool {
		if holder, taken := given[name]; taken && holder != o {
			return false
		}
		given[name] = o
		exposed[o] = name
		out[o] = name
		return true
	}
	var rest []origin
	for _, o := range origins {
		if o.server == "" { // the gateway's own tools always have their names
			delete(exposed, given[o.name])
			given[o.name], out[o] = o, o.name
			continue
		}
		if name, had := exposed[o]; had {
			out[o] = name
			continue
		}
		own := prefix[o.server] + o.name
		if !legal(own) || !take(o, own) {
			rest = append(rest, o)
		}
	}
	for _, o := range rest {
		long := clean(o.server) + "_" + clean(prefix[o.server]+o.name)
		if len(long) <= maxName && take(o, long) {
			continue
		}
		for salt := ""; !take(o, shorten(long, o, salt)); salt += "+" {
		}
	}
	return out
}

// shorten cuts a name to fit and ends it in a hash of its origin.
func shorten(long string, o origin, salt string) string {
	sum := sha256.Sum256([]byte(o.server + "\x00" + o.name + salt))
	end := "_" + hex.EncodeToString(sum[:4])
	return long[:min(len(long), maxName-len(end))] + end
}
