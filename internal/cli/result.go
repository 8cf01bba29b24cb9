package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// contentBlock is what is read of one part of a result; every kind has its own few fields.
type contentBlock struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Resource struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// writeResult prints a result for a person: its texts, and a line for everything else. A result
// without content is printed as the object that it is.
func writeResult(w io.Writer, result json.RawMessage) error {
	var r struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) == 0 {
		object := result
		if err == nil && len(r.Structured) > 0 {
			object = r.Structured
		}
		return writeIndented(w, object)
	}
	for _, raw := range r.Content {
		text := strings.TrimRight(cleanText(blockText(raw)), "\n")
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

func blockText(raw json.RawMessage) string {
	var b contentBlock
	if err := json.Unmarshal(raw, &b); err != nil {
		return string(raw)
	}
	switch b.Type {
	case "text":
		return b.Text
	case "image", "audio":
		return fmt.Sprintf("[%s %s, %d bytes]", b.Type, b.MIMEType, base64.StdEncoding.DecodedLen(len(b.Data)))
	case "resource_link":
		return fmt.Sprintf("[resource %s]", b.URI)
	case "resource":
		if b.Resource.Text != nil {
			return *b.Resource.Text
		}
		return fmt.Sprintf("[resource %s %s, %d bytes]", b.Resource.URI, b.Resource.MIMEType,
			base64.StdEncoding.DecodedLen(len(b.Resource.Blob)))
	}
	return string(raw)
}

func writeIndented(w io.Writer, object json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, object, "", "  "); err != nil {
		b.Write(object)
	}
	_, err := fmt.Fprintln(w, cleanText(b.String()))
	return err
}
