package mcptest

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// Browser is a user at the pages of an AuthorizationServer: it keeps cookies, follows redirects and submits
// forms.
type Browser struct {
	t      testing.TB
	client *http.Client
}

// NewBrowser makes one without cookies.
func NewBrowser(t testing.TB) *Browser {
	jar, _ := cookiejar.New(nil) // never fails
	return &Browser{t: t, client: &http.Client{Jar: jar, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if strings.HasSuffix(next.URL.Path, "/oauth/callback") {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)" method="post">`)
	hidden     = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
	abortLink  = regexp.MustCompile(`<a href="([^"]+/abort)"`)
)

// Agree signs in, consents, and returns the address that the user is then sent to, which is not opened.
func (b *Browser) Agree(at string) string { return b.follow(at, false) }

// Refuse opens the page and turns it down.
func (b *Browser) Refuse(at string) string { return b.follow(at, true) }

func (b *Browser) follow(at string, refuse bool) string {
	b.t.Helper()
	response, err := b.client.Get(at)
	for range 10 {
		if err != nil {
			b.t.Fatal(err)
		}
		if to, err := response.Location(); err == nil {
			response.Body.Close()
			return to.String()
		}
		page := readPage(response)
		action, abort := formAction.FindStringSubmatch(page), abortLink.FindStringSubmatch(page)
		switch {
		case refuse && abort != nil:
			response, err = b.client.Get(b.resolve(response, abort[1]))
		case action != nil:
			form := url.Values{"login": {"alice"}, "password": {"secret"}}
			for _, input := range hidden.FindAllStringSubmatch(page, -1) {
				form.Set(input[1], html.UnescapeString(input[2]))
			}
			response, err = b.client.PostForm(b.resolve(response, action[1]), form)
		default:
			b.t.Fatalf("a page without a form: HTTP %d %s", response.StatusCode, page)
		}
	}
	b.t.Fatal("the pages have no end")
	return ""
}

func (b *Browser) resolve(response *http.Response, link string) string {
	b.t.Helper()
	to, err := response.Request.URL.Parse(html.UnescapeString(link))
	if err != nil {
		b.t.Fatal(err)
	}
	return to.String()
}

// Open opens an address and returns the page, with its status before it.
func (b *Browser) Open(at string) string {
	b.t.Helper()
	response, err := b.client.Get(at)
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, readPage(response))
}

func readPage(response *http.Response) string {
	defer response.Body.Close()
	page, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return string(page)
}
