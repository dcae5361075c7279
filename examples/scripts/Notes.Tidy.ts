// Scheduled as a job: old notes are removed every night.
//
//	kernos job start --name Notes.Tidy payload:='{"days": 30}' --schedule '0 3 * * *'
import { z } from "kernos:schema";

export const kind = "command";
export const description = "Remove the notes below notes/ that are older than some days: each note is {at, text}.";
export const InputSchema = z.object({ days: z.number().min(0), now: z.number().optional() });
export const OutputSchema = z.object({ kept: z.integer(), removed: z.integer() });

export const handler = async ({ days, now = Date.now() }: { days: number; now?: number }) => {
  let kept = 0, removed = 0, cursor: string | undefined;
  do {
    const page = await kernos.call("Memory.List", { prefix: "notes", recursive: true, cursor });
    for (const key of page.keys) {
      const note = (await kernos.call("Memory.Get", { key })) as { at: number };
      if (now - note.at < days * 86_400_000) {
        kept++;
        continue;
      }
      await kernos.call("Memory.Delete", { key });
      removed++;
    }
    cursor = page.cursor;
  } while (cursor);
  console.log(`removed ${removed} notes, kept ${kept}`);
  return { kept, removed };
};
