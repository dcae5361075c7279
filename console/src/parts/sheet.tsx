// The sheet of keys.
import { signal } from "@preact/signals";
import { keys } from "../core/keys";
import { useModal } from "./modal";

const shown = signal(false);
export function openSheet() { shown.value = true; }

export function Sheet() {
  const dialog = useModal(shown.value);
  return (
    <dialog class="sheet" ref={dialog} aria-label="Keys" data-testid="sheet" onClose={() => { shown.value = false; }}>
      <div class="row"><h2 class="spread">Keys</h2><button class="plain" title="Close (Esc)" onClick={() => dialog.current?.close()}>Close</button></div>
      <dl>{keys.value.map((key) => [<dt key={key.keys}><kbd>{key.keys}</kbd></dt>, <dd key={key.keys + "does"}>{key.does}</dd>])}</dl>
    </dialog>
  );
}
