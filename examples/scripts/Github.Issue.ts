// A public REST API behind a schema, with its errors mapped to ours.
import { z } from "kernos:schema";

export const kind = "command";
export const description = "Read an issue of a public repository on GitHub.";
export const InputSchema = z.object({
  repository: z.string().regex(/^[\w.-]+\/[\w.-]+$/).describe("owner/name"),
  number: z.integer().min(1),
  api: z.string().url().default("https://api.github.com"),
});
export const OutputSchema = z.object({ title: z.string(), state: z.enum(["open", "closed"]), labels: z.array(z.string()) });

// What the server answers, and what a caller of ours gets.
const errors: Record<number, [number, string]> = {
  401: [403, "GitHub doesn't accept the token"],
  403: [429, "GitHub takes no more requests at the moment; try again in an hour"],
  404: [404, "no such issue, or the repository isn't public"],
  410: [404, "the issue was deleted"],
  429: [429, "GitHub takes no more requests at the moment; try again in an hour"],
};

export const handler = async ({ repository, number, api = "https://api.github.com" }: { repository: string; number: number; api?: string }) => {
  const answer = await fetch(`${api}/repos/${repository}/issues/${number}`, { headers: { accept: "application/vnd.github+json" } });
  if (!answer.ok) {
    const [code, text] = errors[answer.status] ?? [502, `GitHub answered with ${answer.status}`];
    throw new kernos.Error(code, `${repository}#${number}: ${text}`);
  }
  const issue = await answer.json();
  return { title: issue.title, state: issue.state, labels: issue.labels.map((l: { name: string }) => l.name) };
};
