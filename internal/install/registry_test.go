package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// registry serves packages on loopback to the real npm, pip and uv.
type registry struct {
	*httptest.Server
	requests atomic.Int64
	files    map[string][]byte // path -> content
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{files: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.requests.Add(1)
		data, ok := r.files[strings.TrimSuffix(q.URL.Path, "/")]
		if !ok {
			http.NotFound(w, q)
			return
		}
		if strings.HasPrefix(q.URL.Path, "/simple/") {
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(r.Close)
	return r
}

// addNPM publishes versions of a package with the same files; the last one is the newest.
func (r *registry) addNPM(t *testing.T, name string, bin any, files map[string]string, versions ...string) {
	t.Helper()
	all := map[string]any{}
	for _, version := range versions {
		manifest := map[string]any{"name": name, "version": version, "bin": bin}
		text, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		var tarball bytes.Buffer
		zipped := gzip.NewWriter(&tarball)
		archive := tar.NewWriter(zipped)
		write := func(file, content string) {
			header := &tar.Header{Name: "package/" + file, Mode: 0o644, Size: int64(len(content))}
			if err := archive.WriteHeader(header); err != nil {
				t.Fatal(err)
			}
			_, _ = archive.Write([]byte(content))
		}
		write("package.json", string(text))
		for file, content := range files {
			write(file, strings.ReplaceAll(content, "VERSION", version))
		}
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
		path := "/" + name + "/-/" + version + ".tgz"
		r.files[path] = tarball.Bytes()
		sum := sha512.Sum512(tarball.Bytes())
		manifest["dist"] = map[string]string{"tarball": r.URL + path, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		all[version] = manifest
	}
	text, err := json.Marshal(map[string]any{"name": name, "versions": all, "dist-tags": map[string]string{"latest": versions[len(versions)-1]}})
	if err != nil {
		t.Fatal(err)
	}
	r.files["/"+name] = text
}

// addPyPI publishes a wheel with one module and its executables, name -> function of the module.
func (r *registry) addPyPI(t *testing.T, name, version, module string, scripts map[string]string) {
	t.Helper()
	escaped := strings.NewReplacer("-", "_", ".", "_").Replace(name)
	info := escaped + "-" + version + ".dist-info/"
	points := "[console_scripts]\n"
	for script, function := range scripts {
		points += script + " = " + escaped + ":" + function + "\n"
	}
	files := map[string]string{
		escaped + ".py":           module,
		info + "METADATA":         "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "entry_points.txt": points,
		info + "RECORD":           "",
	}
	for file := range files {
		files[info+"RECORD"] += file + ",,\n"
	}
	wheel := escaped + "-" + version + "-py3-none-any.whl"
	r.files["/wheels/"+wheel] = zipOf(t, files)
	page := "/simple/" + normalPythonName(name)
	r.files[page] = fmt.Appendf(r.files[page], "<a href=\"%s/wheels/%s\">%s</a>\n", r.URL, wheel, wheel)
}

func zipOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var data bytes.Buffer
	archive := zip.NewWriter(&data)
	for file, content := range files {
		w, err := archive.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(content))
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// env is what makes the package managers ask this registry alone.
func (r *registry) env(t *testing.T, extra ...string) []string {
	t.Helper()
	home := t.TempDir()
	return append([]string{
		"PATH=" + uvFolder(t) + ":" + os.Getenv("PATH"), "HOME=" + home, "npm_config_registry=" + r.URL + "/",
		"UV_DEFAULT_INDEX=" + r.URL + "/simple", "UV_PYTHON_DOWNLOADS=never", "UV_CACHE_DIR=" + home + "/uv",
		"PIP_INDEX_URL=" + r.URL + "/simple", "PIP_CONFIG_FILE=/dev/null", "PIP_NO_CACHE_DIR=1",
	}, extra...)
}

// uvFolder is where "make deps" puts uv, which is on no PATH.
func uvFolder(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../../.cache/uv/bin")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// tool skips a test on a machine without a program; where everything runs it must be there.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if _, err := os.Stat(filepath.Join(uvFolder(t), name)); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing", name)
	}
	t.Skipf("%s is missing", name)
}
