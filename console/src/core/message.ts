// Messages as the journal has them.
import { ask } from "./rpc";

export interface Message {
  kind: string;
  type: string;
  data?: any;
  metadata: { id: string; timestamp: number; correlation?: string; causation?: string };
}

export interface Entry {
  seq: number;
  at: number;
  principal?: string;
  wire?: string;
  claim?: boolean;
  message: Message;
}

/** Whether a message asks for an answer: only such a message can be sent. */
export const asks = (kind?: string) => kind === "command" || kind === "query";

/** Whether data of the journal is all that was sent. The journal has no secrets, and no data of a message that was refused: such a message can't be sent as it was. */
export const isWhole = (data: unknown) => data !== "[refused]" && !JSON.stringify(data ?? null).includes("[redacted]");

/** The messages of a list, each with how it was recorded. */
export const entriesOf = ({ messages = [], records }: { messages?: Message[]; records: Omit<Entry, "message">[] }): Entry[] => messages.map((message, i) => ({ ...records[i], message }));

/** The recorded message of an id, if there is one. Message.Get would fail without one, and what fails is recorded. */
export const find = async (id: string): Promise<Entry | undefined> => entriesOf(await ask("message_list", [{ id, records: true }]))[0];

/** What the kernel has recorded of the data of a request; undefined if that isn't all of it. Only the kernel knows what is a secret. */
export async function recorded(id: string): Promise<unknown> {
  try {
    const data = (await find(id))?.message.data;
    return isWhole(data) ? data : undefined;
  } catch { return undefined; } // not every browser may look
}

/** Memory.Get is memory/get, and Job.TreeCreate job/tree_create. */
export const callOf = (type: string): [module: string, method: string] => {
  const [domain, action] = type.includes(".") ? type.split(".", 2) : ["Kernel", type];
  return [domain.toLowerCase(), action.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase()];
};
