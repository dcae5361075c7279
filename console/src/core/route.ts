// Where the reader is: every view, filter and call is a link. The place stands behind the # of
// the address: #/VIEW/REST?NAME=VALUE. Going to a place never runs anything. Browsers keep addresses:
// what may be a secret must not be in one.
import { signal } from "@preact/signals";

export interface Place { view: string; rest: string[]; query: URLSearchParams }

function parse(): Place {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [view, ...rest] = path.split("/").map(decodeURIComponent);
  return { view, rest, query: new URLSearchParams(query ?? "") };
}

export const place = signal<Place>(parse());
addEventListener("hashchange", () => { place.value = parse(); });

/** The address of a place. */
export function link(view: string, rest: string[] = [], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => !!entry[1]);
  const text = new URLSearchParams(given).toString();
  return "#/" + [view, ...rest].map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

/** Goes to a place, as following a link does. */
export function go(address: string) { location.hash = address; }

/** Changes the address without a step in the history. */
export function note(address: string) {
  history.replaceState(null, "", address);
  place.value = parse();
}
