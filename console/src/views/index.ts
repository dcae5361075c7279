// The views. Adding one is a folder and a line here.
import type { ComponentType } from "preact";

export interface View {
  name: string; // in the address
  title: string;
  key: string; // which opens it
  needs?: string; // a method: without it the view isn't there
  load(): Promise<{ default: ComponentType }>;
}

export const views: View[] = [
  { name: "call", title: "Call", key: "g c", load: () => import("./call/view") },
  { name: "messages", title: "Messages", key: "g m", needs: "message_list", load: () => import("./messages/view") },
  { name: "workflows", title: "Workflows", key: "g w", needs: "message_graph", load: () => import("./workflows/view") },
  { name: "memory", title: "Memory", key: "g k", needs: "memory_list", load: () => import("./memory/view") },
];
