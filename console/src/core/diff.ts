// The difference of two texts, line by line.

export interface Line { mark: " " | "-" | "+"; text: string }

const most = 2000; // lines that are compared; of longer texts, all lines differ

/** The lines of both texts: those of the first one alone, of the second one alone, and of both. */
export function diff(before: string, after: string): Line[] {
  const a = before.split("\n"), b = after.split("\n");
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (text: string): Line => ({ mark: " ", text });
  return [...a.slice(0, start).map(same), ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...a.slice(a.length - end).map(same)];
}

function middle(a: string[], b: string[]): Line[] {
  if (a.length > most || b.length > most) return [...a.map((text): Line => ({ mark: "-", text })), ...b.map((text): Line => ({ mark: "+", text }))];
  const wide = b.length + 1, common = new Uint16Array((a.length + 1) * wide); // the longest common lines of what is left of both
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i * wide + j] = a[i] === b[j] ? common[(i + 1) * wide + j + 1] + 1 : Math.max(common[(i + 1) * wide + j], common[i * wide + j + 1]);
  }
  const found: Line[] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push({ mark: " ", text: a[i++] }); j++; }
    else if (j >= b.length || (i < a.length && common[(i + 1) * wide + j] >= common[i * wide + j + 1])) found.push({ mark: "-", text: a[i++] });
    else found.push({ mark: "+", text: b[j++] });
  }
  return found;
}
