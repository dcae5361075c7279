// The notifications that wait to be seen.
import { effect, signal } from "@preact/signals";
import { has } from "./catalog";
import { ask, command } from "./rpc";
import { watch } from "./watch";

export interface Notice { id: string; text: string; title?: string; from: string; at: number }

/** The latest notifications that wait, the newest first. */
export const notices = signal<Notice[]>([]);
/** How many wait in all. */
export const unseen = signal(0);
/** Whether the browser shows notifications of this page: "default" until the person was asked. A page without a secure context can't ask. */
export const permission = signal<NotificationPermission>("Notification" in window ? Notification.permission : "denied");

let known: Set<string> | undefined; // the notifications that were listed before

/** Asks the person whether the browser may show notifications of this page. */
export async function askPermission() { permission.value = await Notification.requestPermission(); }

/** Marks those that are listed as seen. */
export async function markSeen() {
  await command("notify_seen", [{ ids: notices.peek().map((notice) => notice.id) }]);
  await refresh();
}

async function refresh() {
  const list = await ask<{ notifications: Notice[]; waiting: number }>("notify_list", [{ limit: 20 }]);
  const fresh = known ? list.notifications.filter(({ id }) => !known!.has(id)) : [];
  known = new Set(list.notifications.map(({ id }) => id));
  notices.value = list.notifications;
  unseen.value = list.waiting;
  if (permission.peek() !== "granted") return;
  for (const { id, title, text } of fresh) new Notification(title || "Kernos", { body: text, tag: id }); // one for all pages that are open
}

const update = () => void refresh().catch(() => {}); // the next event, or the next connection, tries again

const stop = effect(() => {
  if (has("notify_list") && has("message_watch")) queueMicrotask(() => { stop(); watch({ type: "Notify.Sent" }, undefined, { begins: update, entry: update }); });
});
