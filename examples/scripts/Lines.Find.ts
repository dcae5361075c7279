// An async generator: each line that matches is an event, and progress is reported meanwhile.
import { z } from "kernos:schema";

export const kind = "query";
export const description = "Find the lines of a file that contain a text: each is an event.";
export const InputSchema = z.object({ uri: z.string(), find: z.string().min(1) });
export const OutputSchema = z.object({ lines: z.integer(), found: z.integer() });

export async function* handler({ uri, find }: { uri: string; find: string }) {
  // A file that is too large for a message comes as a reference, which is read part by part.
  const { content = "", contentRef: ref, size } = await kernos.call("VFS.Read", { uri });
  let lines = 0, found = 0, rest = content, next = ref && 0;
  do {
    kernos.progress(`line ${lines + 1}`, size ? (next ?? 0) / size : 0);
    if (ref) {
      const part = await kernos.call("Blob.Read", { ref, offset: next });
      if (part.text === undefined) throw new kernos.Error(422, `${uri} isn't a text`);
      rest += part.text;
      next = part.next;
    }
    const whole = rest.split("\n");
    rest = next === undefined ? "" : whole.pop()!;
    for (const text of whole) {
      lines++;
      if (!text.includes(find)) continue;
      found++;
      yield { line: lines, text };
    }
  } while (next !== undefined);
  return { lines, found };
}
