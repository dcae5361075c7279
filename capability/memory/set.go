package memory

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"kernos/internal/jsonscan"
	"kernos/internal/sealed"
	"kernos/internal/secret"
	"kernos/internal/when"
	"kernos/kernel"
	"kernos/message"
	"kernos/schema"
	"kernos/store"
	"kernos/store/blobs"
)

type setInput struct {
	Key          string               `json:"key" jsonschema_description:"Path in the memory namespace (e.g., '/notes/123', 'vault/api-key'). A leading slash is optional; no trailing slash, no '.' or '..', at most 512 bytes."`
	Value        jsontext.Value       `json:"value,omitempty" jsonschema:"oneof_required=value" jsonschema_description:"Content to store: any JSON value, kept exactly as it is written. For encrypted storage, use the vault/* namespace with pwenc:v1:* format. Either this or valueRef."`
	ValueRef     *message.BlobPointer `json:"valueRef,omitempty" jsonschema:"oneof_required=valueRef" jsonschema_description:"A pointer to the content if it is too large for a message: at most 64 MB. The media type of a data pointer says whether it is JSON; other content is stored as JSON if it parses, and as a string if it is UTF-8 text."`
	As           string               `json:"as,omitempty" jsonschema:"enum=json,enum=text" jsonschema_description:"Treat the content behind valueRef as json or as text, regardless of its media type."`
	TTL          when.Span            `json:"ttl,omitempty" jsonschema:"minimum=1,maximum=9007199254740991" jsonschema_description:"How long until the key expires: milliseconds, or a text such as 90s, 1h or 7 days. Without it, the key doesn't expire, even if it had a ttl before."`
	IfRevision   *uint64              `json:"ifRevision,omitempty" jsonschema:"minimum=0" jsonschema_description:"Store only if the key is at this revision; 0: only if it does not exist. Otherwise the reply is a 409 error. Memory.Get with withRevision returns the revision."`
	WithRevision bool                 `json:"withRevision,omitempty" jsonschema_description:"Reply with the new revision."`
}

type setOutput struct {
	Success  bool   `json:"success" jsonschema_description:"True: the value is stored and durable. A failure is an error message."`
	Revision uint64 `json:"revision,omitzero" jsonschema_description:"The new revision of the key, if ifRevision or withRevision was given."`
	Note     string `json:"note,omitzero" jsonschema_description:"How to keep the value encrypted, if it sounds like a credential. It is stored as it is."`
}

var set = kernel.DefineCommand[setInput, kernel.Raw](kernel.Definition{
	Type:    "Memory.Set",
	Summary: "Set the value of a key. The value is durable when the reply arrives.",
	Input:   schema.Input[setInput]().Example(`{"key":"notes/1","value":"milk"}`).Quiet(), // the vault's secrets come through it
	Output:  schema.Output[setOutput](),
	Emits:   changed,
	Presentation: kernel.Presentation{
		Title: "Set a value",
		Words: "remember, take a note, jot down, note, put, save, write down, keep, kv, storage, store, cache, redis, db, database, variable, " +
			"setting, config, don't forget this, keep this in mind, bear in mind, make a note of it, add a note, create a note, change a note, " +
			"update a note, save a setting, change a setting, save it for later, note to self, remember my preference, overwrite a value",
		Stdin: "value", Result: "Set {request.key}[ (version {revision})][. {note}]",
		Arguments: []string{"key", "value"},
		Errors: []kernel.ErrorDefinition{
			{Code: 403, When: "the key can't be written"},
			{Code: 404, When: "the file of valueRef doesn't exist"},
			{Code: 409, When: "the key isn't at ifRevision"},
			{Code: 413, When: "the value is larger than 64 MB"},
			{Code: 502, When: "valueRef can't be fetched"},
		},
	},
	Behavior:  kernel.Behavior{Repeat: kernel.Idempotent},
	Journaled: kernel.Journaled{Redact: redact},
})

// success is the reply of most calls.
var success = kernel.Raw(`{"success":true}`)

func (m *Memory) set(ctx context.Context, in setInput) (kernel.Raw, error) {
	revision, err := m.write(ctx, &in, string(kernel.RequestOf(ctx).Metadata.ID))
	sounds := err == nil && soundsSecret(&in, kernel.RequestOf(ctx).Data)
	named := in.IfRevision != nil || in.WithRevision
	if !named && !sounds {
		return success, m.backend(err)
	}
	reply := []byte(`{"success":true`)
	if named {
		reply = fmt.Appendf(reply, `,"revision":%d`, revision)
	}
	if sounds {
		reply = append(reply, `,"note":"`+soundsLikeACredential+`"`...)
	}
	return append(reply, '}'), m.backend(err)
}

const soundsLikeACredential = "The value sounds like a credential, and is stored as it is. " +
	"To keep it encrypted, seal it with Crypto.Seal, and set the sealed string under vault/"

// soundsSecret reports whether something in a request that isn't sealed has the name of a credential. What goes to the vault is
// sealed, and the settings of a model are checked.
func soundsSecret(in *setInput, request []byte) bool {
	if in.Value == nil || !secret.MayHold(request) {
		return false
	}
	if key, err := parseKey(in.Key); err != nil || key.space() == vault || key.isModel() || secret.IsSealed(jsonscan.Content(in.Value)) {
		return false
	}
	_, found := secret.Strictness{Place: secret.Data}.Redact(request)
	return found
}

// write stages the new version of a key that the message of an id brings, and returns its revision.
func (m *Memory) write(ctx context.Context, in *setInput, id string) (uint64, error) {
	key, err := reachWritable(ctx, in.Key)
	if err != nil {
		return 0, err
	}
	d := newDraft(key, recordHead+2*len(id)+len(in.Value)+min(len(in.Value), maxInline))
	text, err := m.content(ctx, in, d)
	if err == nil {
		err = fits(key, text)
	}
	if err != nil {
		return 0, err
	}
	old, err := m.expect(d, in.Key, key, in.IfRevision)
	if err != nil {
		return 0, err
	}
	var expires int64
	if in.TTL != 0 {
		expires = m.opts.Now().UnixMilli() + int64(in.TTL)
	}
	return m.stage(ctx, d, key, &old, version{expires: expires, text: text, message: d.keep(append(d.buf, id...))})
}

// replace stages a new version of a key that follows from the one before: next returns its text,
// and when it expires. If another change comes between, the handler runs again.
func (m *Memory) replace(ctx context.Context, asked string, next func(key memoryKey, old *prior) (text []byte, expires int64, err error)) (uint64, error) {
	key, err := reachWritable(ctx, asked)
	if err != nil {
		return 0, err
	}
	id := string(kernel.RequestOf(ctx).Metadata.ID)
	d := newDraft(key, recordHead+2*len(id)+64)
	old, err := m.expect(d, asked, key, nil)
	if err != nil {
		return 0, err
	}
	text, expires, err := next(key, &old)
	if err == nil {
		err = fits(key, text)
	}
	if err != nil {
		return 0, err
	}
	return m.stage(ctx, d, key, &old, version{expires: expires, text: text, message: []byte(id)})
}

// stage stages a version with a text in the place of another one, and returns its revision.
func (m *Memory) stage(ctx context.Context, d *draft, key memoryKey, old *prior, v version) (uint64, error) {
	var err error
	if v.versionSpan, err = m.supersede(d, key, old); err != nil {
		return 0, err
	}
	v.updated = m.opts.Now().UnixMilli()
	if v.expires != 0 { // set after the deletions: the old version may expire at the same time
		d.Set(timeKey(expires, v.expires, key), nil)
	}
	if err := m.needBlobs(ctx, d, key, &v); err != nil {
		return 0, err
	}
	d.Set(old.entry.Key, d.keep(v.append(d.buf)))
	return v.revision, m.change(ctx, &d.Batch, key, v.revision, false)
}

// expect finds the current version of a key, or what it has left, and fails if the key is
// not at the revision that the caller wants.
func (m *Memory) expect(d *draft, asked string, key memoryKey, ifRevision *uint64) (old prior, err error) {
	if old.version, old.entry, err = findAt(m.store, d.keep(appendCurrentKey(d.buf, key))); err != nil {
		return old, err
	}
	actual := old.revision
	if old.entry.Revision == 0 {
		if old.versionSpan, old.left, err = last(m.store, key); err != nil {
			return old, err
		}
	} else if old.expires != 0 && old.expired(m.opts.Now().UnixMilli()) {
		actual = 0
	}
	if ifRevision != nil && *ifRevision != actual {
		return old, mismatch(asked, *ifRevision, actual)
	}
	return old, nil
}

// maxMentions is how many blobs a value may point to.
const maxMentions = 1024

// needBlobs keeps the blobs that a new version points to, and makes one of its text if that is
// large.
func (m *Memory) needBlobs(ctx context.Context, d *draft, key memoryKey, v *version) error {
	if mentions := m.blobs.Mentions(v.text); len(mentions) > 0 {
		if len(mentions) > maxMentions {
			return message.Errorf(422, "The value points to %d blobs, and %d are allowed: divide it between several keys", len(mentions), maxMentions)
		}
		reached, err := m.reached(ctx, mentions)
		if err != nil {
			return err
		}
		v.mentions = m.blobs.Keep(reached)
		for _, h := range v.mentions {
			blobs.Refer(&d.Batch, h, historyKey(key, v.revision))
		}
	}
	if len(v.text) > maxInline {
		blob, err := m.blobs.Put(v.text)
		if err != nil {
			return err
		}
		v.text, v.blob, v.large = nil, blob.Hash, blob.Size
		blobs.Refer(&d.Batch, blob.Hash, historyKey(key, v.revision))
	}
	return nil
}

// change stages a batch, and publishes [changedType].
func (m *Memory) change(ctx context.Context, b *store.Batch, key memoryKey, revision uint64, deleted bool) error {
	if err := kernel.Stage(ctx, b); err != nil || !kernel.Recorded(ctx) {
		return err
	}
	how := ""
	if deleted {
		how = `,"deleted":true`
	}
	return kernel.Publish(ctx, changedType, changedEvent(key, revision, how))
}

// changedEvent returns the data of [changedType], with how the key has changed beside being set.
func changedEvent(key memoryKey, revision uint64, how string) []byte {
	event := append(make([]byte, 0, len(key)+64), `{"key":`...)
	event = jsonscan.AppendQuoted(event, string(key))
	event = strconv.AppendUint(append(event, `,"revision":`...), revision, 10)
	return append(append(event, how...), '}')
}

// depthAround is how deep a value may be nested in a message that carries it.
const depthAround = 5

// content returns the JSON text of the value that a request brings or points to, without
// white space between its tokens.
func (m *Memory) content(ctx context.Context, in *setInput, d *draft) ([]byte, error) {
	if (in.Value == nil) == (in.ValueRef == nil) {
		return nil, message.Errorf(422, "Memory.Set takes either value or valueRef: give exactly one of them")
	}
	if in.Value != nil {
		if in.As != "" {
			return nil, message.Errorf(422, "as describes what valueRef points to; leave it out with value")
		}
		text := d.keep(jsonscan.AppendCompact(d.buf, in.Value))
		return text, checkDepth(text)
	}
	data, err := m.opts.Resolve(ctx, *in.ValueRef)
	if err != nil {
		return nil, err
	}
	if in.As == "" && in.ValueRef.Scheme == "data" {
		in.As = declared(*in.ValueRef)
	}
	return textOf(data, in.As)
}

// What the content behind a valueRef can be. "" means that it is found out.
const (
	asJSON = "json"
	asText = "text"
)

// declared returns the form that the media type of a data pointer declares.
func declared(p message.BlobPointer) string {
	mediaType, _, _ := p.Inline() // no error: the pointer has been resolved
	name, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	if name = strings.TrimSpace(name); name == "application/json" || name == "text/json" || strings.HasSuffix(name, "+json") {
		return asJSON
	}
	return asText
}

// textOf makes JSON text of what a valueRef points to.
func textOf(data []byte, as string) ([]byte, error) {
	var scan jsonscan.Scanner
	if as != asText {
		end, err := scan.ValueWithin(data, 0, depthAround)
		if err == nil {
			if end = jsonscan.Space(data, end); end < len(data) {
				err = jsonscan.Expected(data, end, "nothing after the value")
			}
		}
		if err == nil {
			return limited(jsonscan.AppendCompact(nil, data))
		}
		if as == asJSON {
			return nil, message.Errorf(422, "The content behind valueRef is not JSON: %v", err)
		}
	}
	if !utf8.Valid(data) {
		return nil, message.Errorf(422, "The content behind valueRef is neither JSON nor UTF-8 text: encode it, for example as base64")
	}
	return limited(jsonscan.AppendQuoted(make([]byte, 0, len(data)+len(data)/16+2), string(data)))
}

func limited(text []byte) ([]byte, error) {
	if len(text) > MaxValue {
		return nil, message.Errorf(413, "The value has %d bytes, and %d are allowed: split it, or store a pointer to it", len(text), MaxValue)
	}
	return text, nil
}

// checkDepth makes sure that a value can be sent back wherever it may stand in a reply.
func checkDepth(text []byte) error {
	if len(text) < jsonscan.MaxDepth-depthAround {
		return nil
	}
	var scan jsonscan.Scanner
	if _, err := scan.ValueWithin(text, 0, depthAround); err != nil {
		return message.Errorf(422, "The value is nested deeper than %d levels", jsonscan.MaxDepth-depthAround)
	}
	return nil
}

// fits checks a value against the rules of its key's namespace. The errors do not quote
// the value.
func fits(key memoryKey, text []byte) error {
	switch key.space() {
	case vault:
		fault, plain := sealedFault(text)
		if plain {
			return message.Errorf(422, "Invalid value format: vault/* requires pwenc:v1:* ciphertext (got plain text for %s)", key)
		}
		if fault != "" {
			return message.Errorf(422, "Invalid value format: vault/* requires pwenc:v1:* ciphertext (the sealed string for %s is malformed: %s)", key, fault)
		}
	case sys:
		if !singleLine(text) {
			return message.Errorf(422, "Invalid value format: sys/* holds single-line values (got a line break for %s)", key)
		}
	}
	if key.isModel() {
		if fault := modelFault(text); fault != "" {
			return message.Errorf(422, "Invalid value format: models/* holds settings of a model, or the name of another one (%s: %s)", key, fault)
		}
	}
	return nil
}

// modelFault reports what keeps a JSON value from being kept as the settings of a model, or returns
// "". Only what may be a secret is looked at: a key that isn't sealed, or a text that isn't a name.
func modelFault(value []byte) string {
	switch value[0] {
	case '"':
		if name := jsonscan.Unquote(value); len(name) > 64 || strings.ContainsAny(name, " {/") {
			return "got another text"
		}
	case '{':
		if secret := jsonscan.Member(value, "key"); secret != nil {
			if fault, _ := sealedFault(secret); fault != "" {
				return "the key isn't sealed; seal it with kernos crypto seal --for HOST"
			}
		}
	default:
		return "got neither"
	}
	return ""
}

// sealedFault reports what keeps a JSON value from being a sealed string, or returns "". It looks
// at the form only: without the key, it is not known whether the string opens. A text without
// the prefix is plain.
func sealedFault(value []byte) (fault string, plain bool) {
	if value[0] != '"' {
		return "it is not a string", true
	}
	text := jsonscan.Unquote(value)
	if _, err := sealed.Parse(text); err != nil {
		return err.Error(), !sealed.Begins(text)
	}
	return "", false
}

// singleLine reports whether no string in a JSON text has a line break.
func singleLine(text []byte) bool {
	for i := 0; i < len(text); {
		if text[i] != '"' {
			i++
			continue
		}
		end := jsonscan.Skip(text, i)
		if strings.ContainsAny(jsonscan.Unquote(text[i:end]), "\n\v\f\r\u0085\u2028\u2029") {
			return false
		}
		i = end
	}
	return true
}
