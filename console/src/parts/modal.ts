// Dialogs that are shown above the page.
import { useEffect, useRef } from "preact/hooks";

/** Opens and closes a dialog. The effect has the state that was drawn: a dialog that is still hidden couldn't focus its field. */
export function useModal(open: boolean) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { open ? dialog.current?.showModal() : dialog.current?.close(); }, [open]);
  return dialog;
}
