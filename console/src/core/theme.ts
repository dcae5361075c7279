// The theme follows the system until the reader chooses one.
import { effect, signal } from "@preact/signals";

const system = matchMedia("(prefers-color-scheme: dark)");
const chosen = signal(localStorage.getItem("kernos.theme") ?? "");
const dark = signal(system.matches);
system.addEventListener("change", () => { dark.value = system.matches; });

effect(() => { document.documentElement.dataset.theme = chosen.value || (dark.value ? "dark" : "light"); });

export function toggleTheme() {
  chosen.value = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("kernos.theme", chosen.value);
}
