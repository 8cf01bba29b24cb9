package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
)

// procStat is one process as /proc/PID/stat tells it.
type procStat struct {
	pid, ppid, group, session int
	state                     byte
}

func (p procStat) dead() bool { return p.state == 'Z' || p.state == 'X' }

// readProcs lists all processes. One that ends meanwhile is left out.
func readProcs() ([]procStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var procs []procStat
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, err := parseStat(text); err == nil {
			procs = append(procs, p)
		}
	}
	return procs, nil
}

// parseStat reads the first fields. The program's name stands in brackets and may hold anything,
// brackets and blanks included.
func parseStat(text []byte) (procStat, error) {
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return procStat{}, errors.New("no name in brackets")
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 4 {
		return procStat{}, errors.New("too few fields")
	}
	p := procStat{state: fields[0][0]}
	for _, f := range []struct {
		to   *int
		text []byte
	}{{&p.pid, text[:open-1]}, {&p.ppid, fields[1]}, {&p.group, fields[2]}, {&p.session, fields[3]}} {
		n, err := strconv.Atoi(string(f.text))
		if err != nil {
			return procStat{}, err
		}
		*f.to = n
	}
	return p, nil
}

// hasEnv reports whether a process was started with an environment variable that begins with prefix.
func hasEnv(pid int, prefix string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for _, entry := range bytes.Split(env, []byte{0}) {
		if bytes.HasPrefix(entry, []byte(prefix)) {
			return true
		}
	}
	return false
}

// descendants picks the processes of one tree: the root, everything linked to it by parent or session,
// and what was cut off from it (by a double fork) but is known by its mark. Since the gateway is the
// sub-reaper, whatever is cut off has become the gateway's own child: only these are asked for a mark.
func descendants(procs []procStat, root, gateway int, marked func(pid int) bool) []procStat {
	in := map[int]bool{}
	sessions := map[int]bool{root: true}
	take := func(p procStat) {
		in[p.pid] = true
		sessions[p.session] = true
	}
	var foreign int // the gateway's own session, which belongs to no tree
	for _, p := range procs {
		if p.pid == gateway {
			foreign = p.session
		}
	}
	for _, p := range procs {
		if p.ppid == gateway && p.pid != root && p.session != foreign && !p.dead() && marked(p.pid) {
			take(p)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, p := range procs {
			linked := p.pid == root || in[p.ppid] || sessions[p.session]
			if linked && !in[p.pid] && p.session != foreign {
				take(p)
				changed = true
			}
		}
	}
	var tree []procStat
	for _, p := range procs {
		if in[p.pid] && !p.dead() {
			tree = append(tree, p)
		}
	}
	return tree
}
