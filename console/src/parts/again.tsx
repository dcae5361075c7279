// Sends a message again as it was, after asking where that would repeat an effect.
import { useSignal } from "@preact/signals";
import { about, wireName } from "../core/catalog";
import { callOf, isWhole, type Message } from "../core/message";
import { command } from "../core/rpc";

export function SendAgain({ message }: { message: Message }) {
  const asking = useSignal(false), outcome = useSignal<{ failed?: boolean; text: string } | undefined>(undefined);
  const [module, method] = callOf(message.type);
  const send = async () => {
    asking.value = false;
    outcome.value = { text: "Sending" };
    try {
      await command(wireName(module, method), [message.data ?? {}]);
      outcome.value = { text: "Sent again" };
    } catch (failure) {
      outcome.value = { failed: true, text: (failure as Error).message };
    }
  };
  const press = async () => {
    outcome.value = undefined;
    try {
      if ((await about(module, method)).asks) asking.value = true;
      else await send();
    } catch (failure) {
      outcome.value = { failed: true, text: (failure as Error).message };
    }
  };
  if (!isWhole(message.data)) return null;
  return (
    <>
      <button data-testid="again" onClick={() => void press()}>Send again</button>
      {asking.value && <span class="guidance" role="alert" data-testid="confirm">This repeats an effect that can't be taken back. <button data-testid="confirmed" onClick={() => void send()}>Send it</button> <button class="plain" onClick={() => { asking.value = false; }}>Don't</button></span>}
      {outcome.value && <span class={outcome.value.failed ? "problem" : "quiet"} role="status" data-testid="sent">{outcome.value.text}</span>}
    </>
  );
}
