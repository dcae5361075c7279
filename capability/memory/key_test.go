package memory

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"kernos/message"
)

func TestKeysHaveOneNormalForm(t *testing.T) {
	for asked, want := range map[string]memoryKey{
		"notes/1":                             "notes/1",
		"/notes/1":                            "notes/1",
		"///notes//1":                         "notes/1",
		"a////b":                              "a/b",
		"a":                                   "a",
		"a b/ c ":                             "a b/ c ",
		"...":                                 "...",
		".hidden/..x":                         ".hidden/..x",
		"50%/off":                             "50%/off",
		"100%":                                "100%",
		"a%zz":                                "a%zz",
		"vault/google":                        "vault/google",
		"/vault//google":                      "vault/google",
		"//vault/x":                           "vault/x",
		"proc":                                "proc",
		"sys/a":                               "sys/a",
		"vaults/x":                            "vaults/x",
		"vault.md":                            "vault.md",
		"sys.log/1":                           "sys.log/1",
		"proc-2":                              "proc-2",
		"user:1/x":                            "user:1/x",
		"system:x":                            "system:x",
		"memory/notes":                        "memory/notes",
		"memory":                              "memory",
		"my/memory/vault/x":                   "my/memory/vault/x",
		"a:/b":                                "a:/b",
		"notes/https://example.com":           "notes/https:/example.com",
		"procès/1":                            "procès/1",
		"notes/end.":                          "notes/end.",
		"my/vault/x":                          "my/vault/x",
		"my/VAULT/x":                          "my/VAULT/x",
		"system/x":                            "system/x",
		"cafe\u0301":                          "caf\u00e9",
		"\u212B":                              "\u00c5", // Ångström
		"世界/日本":                               "世界/日本",
		"ключ/раз":                            "ключ/раз",
		"می\u200Cخواهم":                       "می\u200Cخواهم",
		"👩\u200D🔬/❤\uFE0F":                    "👩\u200D🔬/❤\uFE0F",
		"½/…":                                 "½/…",
		"/found/'; DELETE FROM memory; --":    "found/'; DELETE FROM memory; --",
		strings.Repeat("x", maxKey):           memoryKey(strings.Repeat("x", maxKey)),
		"///" + strings.Repeat("x", maxKey):   memoryKey(strings.Repeat("x", maxKey)),
		strings.Repeat("e\u0301", maxKey/2):   memoryKey(strings.Repeat("é", maxKey/2)),
		"a\u00a0b":                            "a\u00a0b",
		`"quoted"/{"json":1}/[x]/$1/~/*?<>|:`: `"quoted"/{"json":1}/[x]/$1/~/*?<>|:`,
	} {
		got, err := parseKey(asked)
		if err != nil || got != want {
			t.Errorf("%q is read as %q, %v; want %q", asked, got, err, want)
		}
	}
}

// Each says which rule it breaks.
func TestHostileKeysAreRefused(t *testing.T) {
	for asked, rule := range map[string]string{
		"":                                   "it is empty",
		"/":                                  "it ends with a slash",
		"//":                                 "it ends with a slash",
		"a/":                                 "it ends with a slash",
		"vault/":                             "it ends with a slash",
		".":                                  `the segment "."`,
		"..":                                 `the segment ".."`,
		"./vault/x":                          `the segment "."`,
		"vault/../x":                         `the segment ".."`,
		"a/../vault/x":                       `the segment ".."`,
		"a/./b":                              `the segment "."`,
		"a/..":                               `the segment ".."`,
		"a/．．/vault/x":                       `the segment ".."`, // full-width dots
		"‥/vault/x":                          `the segment ".."`, // a two dot leader
		"a/\u200D..\u200D/b":                 `the segment ".."`,
		"vault\\x":                           "backslash",
		"\\vault\\x":                         "backslash",
		"a\\..\\vault":                       "backslash",
		"vault＼x":                            "backslash",
		"%76ault/x":                          "percent-encoded",
		"vault%2Fx":                          "percent-encoded",
		"%2e%2e/vault/x":                     "percent-encoded",
		"%2576ault/x":                        "percent-encoded",
		"％76ault/x":                          "percent-encoded",
		"a\x00b":                             "U+0000",
		"vault\x00/x":                        "U+0000",
		"a\nb":                               "U+000A",
		"\tvault/x":                          "U+0009",
		"a\x7f":                              "U+007F",
		"a\u0085b":                           "U+0085",
		"a\u2028b":                           "U+2028",
		"a\u202Eb":                           "U+202E", // writes backwards
		"\uFEFFvault/x":                      "U+FEFF",
		"va\u200Bult/x":                      "U+200B",
		"va\u00ADult/x":                      "U+00AD",
		"va\u2060ult/x":                      "U+2060",
		"vault\u200D/x":                      "namespace vault",
		"va\u200Cult/x":                      "namespace vault",
		"va\u034Fult/x":                      "namespace vault", // a grapheme joiner
		"va\uFE0Fult/x":                      "namespace vault", // a variation selector
		"va\u3164ult/x":                      "namespace vault", // a Hangul filler
		"VAULT/x":                            "namespace vault",
		"Vault/x":                            "namespace vault",
		"/vAuLt":                             "namespace vault",
		"ｖault/x":                            "namespace vault",
		"ＶＡＵＬＴ/x":                            "namespace vault",
		"𝐯𝐚𝐮𝐥𝐭/x":                            "namespace vault",
		"ⓥⓐⓤⓛⓣ/x":                            "namespace vault",
		"vault／x":                            "namespace vault", // a full-width slash
		"／vault/x":                           "namespace vault",
		"vault∕x":                            "namespace vault", // a division slash
		"vаult/x":                            "namespace vault", // a Cyrillic a
		"νault/x":                            "namespace vault", // a Greek nu
		" vault/x":                           "namespace vault",
		"vault /x":                           "namespace vault",
		"\u00a0vault\u3000/x":                "namespace vault",
		strings.Repeat(" ", 100) + "vault/x": "namespace vault",
		"os://memory/vault/x":                "it is a URI",
		"os:///vault/x":                      "it is a URI",
		"/os:/memory/vault/x":                "it is a URI",
		"OS://memory/notes":                  "it is a URI",
		"file:///vault/x":                    "it is a URI",
		"https://example.com/vault":          "it is a URI",
		"ｏｓ：／／memory/x":                      "it is a URI",
		"memory/vault/x":                     "namespace vault",
		"/memory//vault":                     "namespace vault",
		"Memory/Vault/x":                     "namespace vault",
		"mem0ry/vau1t/x":                     "namespace vault",
		"memory:/vault/x":                    "it is a URI",
		"memory/proc/uptime":                 "namespace proc",
		"vault:x":                            "namespace vault",
		"vault:":                             "namespace vault",
		"Vault:x/y":                          "namespace vault",
		"vault：x":                            "namespace vault", // a full-width colon
		"vault;/x":                           "namespace vault",
		"vault;v=1/x":                        "namespace vault",
		"vault.":                             "namespace vault",
		"vault./x":                           "namespace vault",
		"vault . ./x":                        "namespace vault",
		"vàult/x":                            "namespace vault",
		"va\u0300ult/x":                      "namespace vault",
		"v\u0430\u0306ult/x":                 "namespace vault", // a Cyrillic a with a breve
		"vauIt/x":                            "namespace vault",
		"vau1t/x":                            "namespace vault",
		"vau|t/x":                            "namespace vault",
		"pr0c/x":                             "namespace proc",
		"PROC/x":                             "namespace proc",
		"рrос/x":                             "namespace proc", // Cyrillic
		"Sys/a":                              "namespace sys",
		"ſys/a":                              "namespace sys", // a long s
		"ѕуѕ/a":                              "namespace sys", // Cyrillic
		"a\xffb":                             "not UTF-8",
		"vault\xc0\xafx":                     "not UTF-8",
		"\xed\xa0\x80":                       "not UTF-8", // a surrogate
		strings.Repeat("x", maxKey+1):        "513 bytes",
		strings.Repeat("é", maxKey/2+1):      "514 bytes",
	} {
		key, err := parseKey(asked)
		if err == nil {
			t.Errorf("%q is read as %q", asked, key)
			continue
		}
		if e, _ := message.ErrorOf(err); e.Code != 422 || !strings.HasPrefix(e.Message, "Invalid key ") || !strings.Contains(e.Message, rule) {
			t.Errorf("%q: %d %s; want the rule %q", asked, e.Code, e.Message, rule)
		}
		if key != "" {
			t.Errorf("%q is refused and read as %q", asked, key)
		}
	}
}

func TestSpaceOfAKeyIsItsFirstSegment(t *testing.T) {
	for key, want := range map[memoryKey]string{
		"vault": vault, "vault/x": vault, "proc/a/b": proc, "sys": sys,
		"vaults": "", "a/vault": "", "sysx/y": "", "": "",
	} {
		if got := key.space(); got != want {
			t.Errorf("%q is in %q, want %q", key, got, want)
		}
	}
}

// The quick way must not take what the other one would refuse or change.
func TestQuickWayTakesNothingElse(t *testing.T) {
	signs := []string{"a", "V", "/", ".", "-", " ", "%", ":", "vault", "Sys", "memory", "vauIt", "é", "41"}
	for _, a := range signs {
		for _, b := range signs {
			for _, c := range signs {
				for _, d := range signs {
					s := a + b + c + d
					quick, sure := ordinary(s)
					if full, err := parseUncommon(s); sure && (err != nil || full != quick) {
						t.Errorf("%q is quickly read as %q, and otherwise as %q, %v", s, quick, full, err)
					}
				}
			}
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{
		"notes/1", "/vault/x", "//vault//x", "VAULT/x", "./vault/x", "a/../vault", "%76ault", "vault\\x", "ｖault/x",
		"va\u200Dult/x", "vаult/x", "vàult/x", "vau1t", "memory/vault/x", "os://memory/x", "vault:x", "vault.", "cafe\u0301/..", "\x00", "a//b/", "½", "\u212A", "sys\n", " proc ", "vault∕x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := parseKey(s)
		if err != nil {
			if key != "" {
				t.Fatalf("%q is refused and read as %q", s, key)
			}
			return
		}
		k := string(key)
		if full, err := parseUncommon(s); err != nil || full != key {
			t.Fatalf("%q is read as %q, and the long way as %q, %v", s, key, full, err)
		}
		if again, err := parseKey(k); err != nil || again != key {
			t.Fatalf("%q is read as %q, and that as %q, %v", s, key, again, err)
		}
		if again, err := parseKey("//" + k); err != nil || again != key {
			t.Fatalf("%q with slashes is read as %q, %v", key, again, err)
		}
		if len(k) == 0 || len(k) > maxKey || !utf8.ValidString(k) || !norm.NFC.IsNormalString(k) {
			t.Fatalf("%q is read as %q", s, key)
		}
		if strings.ContainsFunc(k, unicode.IsControl) || strings.Contains(k, "\\") || strings.Contains("/"+k+"/", "//") {
			t.Fatalf("%q is read as %q", s, key)
		}
		for segment := range strings.SplitSeq(k, "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("%q is read as %q", s, key)
			}
		}
		// Nothing gets into a namespace, or looks as if, but by its name.
		first, _, _ := strings.Cut(strings.TrimLeft(s, "/"), "/")
		visible := strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
				return -1
			}
			return r
		}, norm.NFKC.String(first))
		for _, name := range reserved {
			if literal := first == name; (key.space() == name) != literal || !literal && strings.EqualFold(strings.TrimSpace(visible), name) {
				t.Fatalf("%q is read as %q", s, key)
			}
		}
	})
}

func BenchmarkParseKey(b *testing.B) {
	for name, s := range map[string]string{"plain": "/notes/2026/11/15", "unicode": "/notes/größe"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parseKey(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
