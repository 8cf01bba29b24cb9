package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mcp-gateway/internal/process"
)

// python is what a virtual environment is made with.
type python struct {
	uv   bool   // with uv, else with the interpreter's own venv and pip
	path string // the interpreter; empty means that uv is to fetch one
}

// interpreter is a Python that was asked.
type interpreter struct {
	path    string
	version []int
	venv    bool // it can make environments with pip in them
}

// python finds what the server's environment is made with: uv with a fitting interpreter of the machine
// or one that uv may fetch, or an interpreter alone.
func (j *job) python(ctx context.Context) (python, *lack) {
	_, noUV := process.LookPath("uv", "", j.env)
	var seen []interpreter
	for _, candidate := range j.pythons() {
		found, ok := j.askPython(ctx, candidate)
		if !ok {
			continue
		}
		if j.fits(found) && (noUV == nil || found.venv) {
			return python{uv: noUV == nil, path: found.path}, nil
		}
		seen = append(seen, found)
	}
	if noUV == nil && j.uvMayFetch() {
		return python{uv: true}, nil
	}
	return python{}, j.lacksPython(seen, noUV)
}

// lacksPython says why none of the interpreters will do.
func (j *job) lacksPython(seen []interpreter, noUV error) *lack {
	wanted := need{name: "python"}
	for _, n := range j.pythonNeeds() {
		wanted = n
	}
	for _, p := range seen {
		if j.fits(p) { // and has no venv
			return &lack{err: fmt.Errorf("needs uv, or Python with venv: %w, and %q has no venv", noUV, p.path),
				hint: "install uv (pip install uv), or the package python3-venv"}
		}
	}
	err := fmt.Errorf("needs %s: there is none", wanted)
	if len(seen) > 0 {
		err = fmt.Errorf("needs %s: %q is %s", wanted, seen[0].path, dotted(seen[0].version))
	}
	if noUV == nil {
		return &lack{err: err, hint: fmt.Sprintf("install %s, or let uv fetch one with UV_PYTHON_DOWNLOADS=automatic", wanted)}
	}
	return &lack{err: fmt.Errorf("%w, and %w", err, noUV),
		hint: fmt.Sprintf("install uv (pip install uv), or %s with the package python3-venv", wanted)}
}

func (j *job) pythonNeeds() []need {
	var needs []need
	for _, text := range j.launch.Needs {
		if n := parseNeed(text); n.name == "python" {
			needs = append(needs, n)
		}
	}
	return needs
}

func (j *job) fits(p interpreter) bool {
	return !slices.ContainsFunc(j.pythonNeeds(), func(n need) bool { return !n.meets(p.version) })
}

// uvMayFetch says whether uv is allowed to download an interpreter.
func (j *job) uvMayFetch() bool {
	downloads, _ := lookup(j.env, "UV_PYTHON_DOWNLOADS")
	offline, _ := lookup(j.env, "UV_OFFLINE")
	return !slices.Contains([]string{"never", "manual", "false", "0"}, strings.ToLower(downloads)) &&
		!slices.Contains([]string{"1", "true"}, strings.ToLower(offline))
}

// pythons lists interpreters, the machine's usual one first: those on PATH, of pyenv, and what uv has
// fetched before, for a server or for its user. The search is not left to uv, which gives up at the first one that does not run.
func (j *job) pythons() []string {
	names := []string{"python3", "python"}
	for minor := 14; minor >= 9; minor-- {
		names = append(names, "python3."+strconv.Itoa(minor))
	}
	var paths []string
	for _, name := range names {
		if path, err := process.LookPath(name, "", j.env); err == nil {
			paths = append(paths, path)
		}
	}
	home, _ := lookup(j.env, "HOME")
	pyenv, _ := lookup(j.env, "PYENV_ROOT")
	uv, _ := lookup(j.env, "UV_PYTHON_INSTALL_DIR")
	for _, pattern := range []string{
		filepath.Join(cmp.Or(pyenv, filepath.Join(home, ".pyenv")), "versions/3.*/bin/python3"),
		filepath.Join(cmp.Or(uv, filepath.Join(j.opts.Dir, "python")), "cpython-3.*/bin/python3"),
		filepath.Join(home, ".local/share/uv/python/cpython-3.*/bin/python3"),
	} {
		more, _ := filepath.Glob(pattern)
		paths = append(paths, more...)
	}
	return paths
}

const pythonMark = "mcp-gateway-python"

// pythonQuestion makes an interpreter tell its version, whether it can make a virtual environment, and
// its real path, which is not the one of an environment or a shim that it was found by.
const pythonQuestion = `import sys, importlib.util as u
print("` + pythonMark + `", *sys.version_info[:3], int(bool(u.find_spec("venv") and u.find_spec("ensurepip"))), getattr(sys, "_base_executable", None) or sys.executable)`

func (j *job) askPython(ctx context.Context, path string) (interpreter, bool) {
	lines, err := j.probe(ctx, path, "-I", "-c", pythonQuestion)
	if err != nil || len(lines) == 0 {
		return interpreter{}, false
	}
	var p interpreter
	var major, minor, micro, venv int
	rest, ok := strings.CutPrefix(lines[len(lines)-1], pythonMark+" ")
	fields := strings.SplitN(rest, " ", 5)
	if !ok || len(fields) != 5 {
		return p, false
	}
	if _, err := fmt.Sscan(strings.Join(fields[:4], " "), &major, &minor, &micro, &venv); err != nil {
		return p, false
	}
	return interpreter{path: fields[4], version: []int{major, minor, micro}, venv: venv == 1}, true
}

// venvName is the folder of a virtual environment.
const venvName = "venv"

// makeVenv makes the virtual environment dir/venv and installs packages into it. It compiles no byte
// code: what a first start needs is compiled by that start itself, in a tenth of the time.
func (j *job) makeVenv(ctx context.Context, dir string, requirements []string) error {
	p, l := j.python(ctx)
	if l != nil {
		return j.missing(l.err, l.hint)
	}
	makeIt := []string{p.path, "-m", "venv", venvName}
	fill := []string{filepath.Join(venvName, "bin/python"), "-m", "pip", "install", "--quiet", "--no-compile"}
	env := j.buildEnv()
	if p.uv {
		makeIt = []string{"uv", "venv", "--quiet", "--python", p.path, venvName}
		fill = []string{"uv", "pip", "install", "--python", venvName}
		if p.path == "" {
			makeIt[4] = j.specifier()
			env = j.with(env, map[string]string{"UV_PYTHON_PREFERENCE": "only-managed"})
		}
	}
	if err := j.run(ctx, step{dir: dir, argv: makeIt, env: env}); err != nil {
		return err
	}
	return j.run(ctx, step{dir: dir, argv: append(fill, requirements...), env: env})
}

// compile compiles all byte code of an install's virtual environments, so that no start has to, not
// even one that may not write there. A file that cannot be compiled is never imported either.
func (j *job) compile(ctx context.Context, path string, r *record) error {
	unlock, err := lock(ctx, filepath.Join(filepath.Dir(path), lockName))
	if err != nil {
		return j.waited(ctx, err)
	}
	defer unlock()
	dir := strings.TrimSuffix(path, recordSuffix)
	for _, venv := range []string{filepath.Join(dir, venvName), filepath.Join(r.Dir, venvName), filepath.Join(r.Dir, ".venv")} {
		if _, err := os.Stat(filepath.Join(venv, "pyvenv.cfg")); err != nil {
			continue
		}
		j.opts.Progress(j.server, "compiling its byte code")
		if err := j.compileIn(ctx, venv); err != nil {
			return err
		}
	}
	r.Compiled = true
	if err := r.write(path); err != nil {
		return j.brokenInstall(fmt.Errorf("record the install: %w", err))
	}
	return nil
}

// compileIn compiles what is in one environment: in parallel, and once more without that, which skips
// what is done and also works where processes cannot share memory. What is left cannot be compiled.
func (j *job) compileIn(ctx context.Context, venv string) error {
	for _, jobs := range []string{"0", "1"} {
		spec := process.Spec{Name: j.server, Env: j.buildEnv(), Dir: venv,
			Argv: []string{filepath.Join(venv, "bin/python"), "-m", "compileall", "-q", "-j", jobs, "lib"}}
		exit, err := j.opts.Host.Run(ctx, spec, nil)
		if err != nil {
			return j.installFault(ctx, spec.CommandLine(), exit, nil, err)
		}
		if exit.Success() {
			break
		}
	}
	return nil
}

// specifier says which interpreters uv may choose from.
func (j *job) specifier() string {
	var parts []string
	for _, n := range j.pythonNeeds() {
		parts = append(parts, n.specifier())
	}
	if text := strings.Trim(strings.Join(parts, ","), ","); text != "" {
		return text
	}
	return "3"
}

// distribution is a package in a virtual environment.
type distribution struct {
	version string
	scripts []string // names of its executables
}

// findDistribution reads what was installed of a package from the list of its files.
func findDistribution(venv, pkg string) (distribution, error) {
	lists, err := filepath.Glob(filepath.Join(venv, "lib/*/site-packages/*.dist-info/RECORD"))
	if err != nil {
		return distribution{}, err
	}
	for _, list := range lists {
		name, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(filepath.Dir(list)), ".dist-info"), "-")
		if normalPythonName(name) != normalPythonName(pkg) {
			continue
		}
		text, err := os.ReadFile(list)
		if err != nil {
			return distribution{}, err
		}
		return distribution{version: version, scripts: scriptsOf(string(text))}, nil
	}
	return distribution{}, errors.New("it is not in the environment that it was installed into")
}

// scriptsOf finds the executables in a RECORD file.
func scriptsOf(record string) []string {
	var scripts []string
	for line := range strings.Lines(record) {
		path, _, _ := strings.Cut(line, ",")
		if folder, script := filepath.Split(path); strings.HasSuffix(folder, "../bin/") {
			scripts = append(scripts, script)
		}
	}
	return scripts
}

// normalPythonName is the form in which two spellings of a package's name are equal.
func normalPythonName(name string) string {
	fields := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	return strings.Join(fields, "-")
}
