// A pure function: the last part of an address, made of a title.
import { z } from "kernos:schema";

export const kind = "query";
export const description = "Make the last part of an address of a title: Crème brûlée! is creme-brulee.";
export const InputSchema = z.object({ title: z.string().max(1000) });
export const OutputSchema = z.object({ slug: z.string() });

export const handler = ({ title }: { title: string }) => ({
  slug: title.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, ""),
});
