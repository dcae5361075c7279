// Memory and HTTP: a rate is fetched with a key that stays sealed, and kept for an hour.
//
//	kernos crypto seal --for api.example.com    makes the sealed key, which is stored as exchange/key;
//	                                            only a request to that host opens it
import { z } from "kernos:schema";

export const kind = "command";
export const description = "The rate between two currencies, at most an hour old.";
export const InputSchema = z.object({ from: z.string().length(3), to: z.string().length(3) });
export const OutputSchema = z.object({ rate: z.number(), cached: z.boolean() });

export const handler = async ({ from, to }: { from: string; to: string }) => {
  const key = `exchange/rates/${from}-${to}`;
  try {
    return { rate: (await kernos.call("Memory.Get", { key })) as number, cached: true };
  } catch (e: any) {
    if (e.code !== 404) throw e;
  }
  const { url, token } = (await kernos.call("Memory.Get", { key: "exchange/server" })) as { url: string; token: string };
  const answer = await fetch(`${url}/rates?from=${from}&to=${to}`, { headers: { authorization: `Bearer ${token}` } });
  if (!answer.ok) throw new kernos.Error(502, `the server of rates answered with ${answer.status}`);
  const { rate } = await answer.json();
  await kernos.call("Memory.Set", { key, value: rate, ttl: 3_600_000 });
  return { rate, cached: false };
};
