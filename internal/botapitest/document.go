package botapitest

import (
	"fmt"
	"mime"
	"path"
	"strings"
)

const (
	maxCaption = 1024     // UTF-16 units
	maxUpload  = 50 << 20 // bytes
)

// sendDocument stores a message with a file that came with the call; its
// content is counted, not kept. Files by id or URL are refused as wrong ones.
func sendDocument(b *Bot, c *call) (Answer, *refusal) {
	file, r := documentArgument(c.args)
	if r != nil {
		return Answer{}, r
	}
	f, r := formattedArgument(c.args, "caption", "caption_entities")
	if r != nil {
		return Answer{}, r
	}
	if utf16Len(f.text) > maxCaption {
		return Answer{}, badRequest("message caption is too long")
	}
	return b.send(c, &message{text: f.text, entities: f.entities, kind: "document", content: printDocument(file), file: file})
}

func documentArgument(a args) (upload, *refusal) {
	name := "document"
	if attached, ok := strings.CutPrefix(a.text(name), "attach://"); ok {
		name = attached
	}
	file, ok := a.files[name]
	switch {
	case !ok && a.has("document"):
		return upload{}, badRequest("wrong file identifier/HTTP URL specified")
	case !ok:
		return upload{}, badRequest("there is no document in the request")
	case file.size == 0:
		return upload{}, badRequest("file must be non-empty")
	case file.size > maxUpload:
		return upload{}, &refusal{code: 413, description: "Request Entity Too Large"}
	}
	return file, nil
}

func printDocument(file upload) []byte {
	var o object
	o.text("file_name", file.name)
	kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(file.name)), ";")
	o.textIf("mime_type", kind)
	o.text("file_id", fmt.Sprintf("BQACAgIAAxkDAAbotapitest%012d", file.size))
	o.text("file_unique_id", fmt.Sprintf("AgADbotapitest%06d", file.size))
	o.number("file_size", file.size)
	return o.close()
}
