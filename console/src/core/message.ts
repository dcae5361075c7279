// Messages as the journal has them.

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

/** Memory.Get is memory/get, and Job.TreeCreate job/tree_create. */
export const callOf = (type: string): [module: string, method: string] => {
  const [domain, action] = type.includes(".") ? type.split(".", 2) : ["Kernel", type];
  return [domain.toLowerCase(), action.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase()];
};
