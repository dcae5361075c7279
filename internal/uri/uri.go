// Package uri reads URIs that may be written in any way.
package uri

// Scheme returns what stands before the colon of an absolute URI, or "". One letter is no
// scheme: C:/notes is a name like any other. A relative name with a colon in its first
// segment is written ./a:b, as everywhere.
func Scheme(uri string) string {
	for i := range len(uri) {
		c := uri[i]
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		case c == ':' && i > 1:
			return uri[:i]
		default:
			return ""
		}
	}
	return ""
}
