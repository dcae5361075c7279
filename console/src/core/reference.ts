// Answers that are too large for a line of the connection: a blob has their data, and a pointer stands in its place.
import { request } from "./door";
import { parse } from "./json";

/** The data of an answer as its sender meant it: what a pointer in place of all of it leads to, or the data itself. */
export async function whole(data: any): Promise<any> {
  const id = blobOf(data?.dataRef);
  if (!id || Object.keys(data).some((name) => !["dataRef", "size", "mediaType"].includes(name))) return data;
  return parse(await (await fetchBlob(`v1/blobs/${id}`)).text());
}

/** The id of the blob that a pointer of the kernel leads to, if it is one. */
export const blobOf = (pointer: any): string | undefined =>
  typeof pointer?.path === "string" && (pointer.scheme === "file" || pointer.scheme === "https") ? /([0-9a-f]{64})$/.exec(pointer.path)?.[1] : undefined;

/** Asks the kernel for a blob. */
export async function fetchBlob(path: string, headers: Record<string, string> = {}): Promise<Response> {
  const answer = await request(path, { headers });
  if (!answer.ok) throw new Error((await answer.json()).message);
  return answer;
}
