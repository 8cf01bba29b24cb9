package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/sys/unix"
)

// Limits of connecting. A request itself has none but its caller's: servers may give no headers before
// a tool is done, and event streams never end.
const (
	connectLimit = 10 * time.Second
	probeEvery   = 15 * time.Second // on silent connections
	deadAfter    = 60 * time.Second // without a sign of life from the other end's system
	keepIdle     = 45 * time.Second
)

// NewTransport makes HTTP connections to one server, with the proxies and certificate authorities that
// an environment names.
func NewTransport(env []string) (*http.Transport, error) {
	vars := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		vars[name] = value
	}
	roots, err := authorities(vars)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		Timeout:         connectLimit,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeEvery, Interval: probeEvery, Count: int(deadAfter / probeEvery)},
		Control:         limitSilence,
	}
	return &http.Transport{
		Proxy:               proxies(vars),
		DialContext:         dialer.DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: connectLimit,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: probeEvery, PingTimeout: probeEvery},
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     keepIdle,
	}, nil
}

// limitSilence makes a connection fail whose other end acknowledges nothing, as it is after a pause of
// the sandbox; the system alone would try for a quarter of an hour.
func limitSilence(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter/time.Millisecond))
	})
	if errors.Is(set, unix.ENOPROTOOPT) { // not every sandbox has it
		set = nil
	}
	return errors.Join(err, set)
}

// proxies follows HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in capitals or not.
func proxies(vars map[string]string) func(*http.Request) (*url.URL, error) {
	get := func(name string) string {
		if value := vars[name]; value != "" {
			return value
		}
		return vars[strings.ToLower(name)]
	}
	config := httpproxy.Config{HTTPProxy: get("HTTP_PROXY"), HTTPSProxy: get("HTTPS_PROXY"), NoProxy: get("NO_PROXY")}
	choose := config.ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
}

// Where systems keep certificate authorities, as crypto/x509 has it.
var (
	systemFiles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}
	systemDirs  = []string{"/etc/ssl/certs", "/etc/pki/tls/certs"}
)

// authorities reads SSL_CERT_FILE and SSL_CERT_DIR, which replace the system's file and folders; nil
// means the system's own.
func authorities(vars map[string]string) (*x509.CertPool, error) {
	file, dirs := vars["SSL_CERT_FILE"], vars["SSL_CERT_DIR"]
	if file == "" && dirs == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities of SSL_CERT_FILE: %w", err)
		}
		pool.AppendCertsFromPEM(text)
	} else {
		for _, file := range systemFiles {
			if text, err := os.ReadFile(file); err == nil {
				pool.AppendCertsFromPEM(text)
				break
			}
		}
	}
	folders := systemDirs
	if dirs != "" {
		folders = filepath.SplitList(dirs)
	}
	for _, dir := range folders {
		entries, _ := os.ReadDir(dir) // one that is not there holds none
		for _, entry := range entries {
			if text, err := os.ReadFile(filepath.Join(dir, entry.Name())); err == nil {
				pool.AppendCertsFromPEM(text)
			}
		}
	}
	return pool, nil
}

const maxRedirects = 5

// SameOrigin follows a redirect within the server's origin that keeps the request as it is. Any other
// one is the answer: what goes to the server goes to nobody else.
func SameOrigin(next *http.Request, before []*http.Request) error {
	first := before[0]
	if next.Method != first.Method || Origin(next.URL) != Origin(first.URL) || len(before) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// Origin is scheme, host and port of a URL: what a secret may be sent to that was given for the URL.
func Origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// pauses notices that a sandbox was paused: the wall clock has gone on, the running time has not. All
// connections are dead then, and only waiting would tell.
type pauses struct {
	began time.Time
	ahead atomic.Int64 // how much more time has passed by the wall clock
}

func (p *pauses) start() { p.began = time.Now() }

// paused tells, once, that there was a pause since the last time that it was asked.
func (p *pauses) paused() bool {
	now := time.Now()
	ahead := now.Round(0).Sub(p.began.Round(0)) - now.Sub(p.began)
	last := time.Duration(p.ahead.Swap(int64(ahead)))
	return (ahead - last).Abs() > time.Second
}
