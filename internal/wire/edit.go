package wire

// Change is one member of an object to be set, or removed where Value is nil.
type Change struct {
	Key   string
	Value []byte
}

// Edit returns the object with the changes made and every other byte as it was. Members that are
// not there are added at the end. Where v is no object (nil, null), it starts from an empty one.
func Edit(object []byte, changes ...Change) []byte {
	if Kind(object) != '{' {
		object = []byte("{}")
	}
	size := len(object)
	for _, c := range changes {
		size += len(c.Key) + len(c.Value) + 4
	}
	e := editor{in: object, out: make([]byte, 0, size)}
	done := e.rewrite(changes)
	for i, c := range changes {
		if c.Value == nil || done&(1<<i) != 0 {
			continue
		}
		e.comma()
		e.out = append(append(append(e.out, Quote(c.Key)...), ':'), c.Value...)
	}
	return append(e.out, object[e.at:]...)
}

// editor copies an object from in to out; at is how far it has come.
type editor struct {
	in, out []byte
	at      int
	kept    bool // a member has been written
}

func (e *editor) comma() {
	if e.kept {
		e.out = append(e.out, ',')
	}
	e.kept = true
}

// rewrite copies the members with their changes and stops before the closing brace. It returns a
// bit for each change that was met.
func (e *editor) rewrite(changes []Change) (done uint64) {
	s := scan(e.in, true)
	defer s.release()
	s.open('{')
	e.take(int(s.dec.InputOffset()))
	for s.dec.PeekKind() == '"' {
		key, err := s.value()
		if err != nil {
			return done
		}
		value, err := s.value()
		if err != nil {
			return done
		}
		change := -1
		for i, c := range changes {
			if same(key.of(e.in), c.Key) {
				change = i
				done |= 1 << i
			}
		}
		switch {
		case change < 0:
			e.comma()
			e.copy(key.from, value.to)
		case changes[change].Value == nil:
			e.at = value.to
		default:
			e.comma()
			e.copy(key.from, value.from)
			e.out = append(e.out, changes[change].Value...)
			e.at = value.to
		}
	}
	return done
}

// take copies up to the offset.
func (e *editor) take(to int) {
	e.out = append(e.out, e.in[e.at:to]...)
	e.at = to
}

// copy copies a member and the white space before it, without the comma that stood there.
func (e *editor) copy(from, to int) {
	for _, c := range e.in[e.at:from] {
		if c != ',' {
			e.out = append(e.out, c)
		}
	}
	e.at = from
	e.take(to)
}
