// An async generator: each line that matches is an event, and progress is reported meanwhile.
import { z } from "kernos:schema";

export const kind = "query";
export const description = "Find the lines of a file that contain a text: each is an event.";
export const InputSchema = z.object({ uri: z.string(), find: z.string().min(1) });
export const OutputSchema = z.object({ lines: z.integer(), found: z.integer() });

export async function* handler({ uri, find }: { uri: string; find: string }) {
  const { content = "" } = await kernos.call("VFS.Read", { uri });
  const lines = content.split("\n");
  let found = 0;
  for (const [i, text] of lines.entries()) {
    if (i % 1000 === 0) kernos.progress(`line ${i + 1}`, i / lines.length);
    if (!text.includes(find)) continue;
    found++;
    yield { line: i + 1, text };
  }
  return { lines: lines.length, found };
}
