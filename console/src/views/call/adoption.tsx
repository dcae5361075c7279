// Code that came from a session stays under the rules of that session until it is adopted. The owner adopts it here, having read it.
import { effect, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { browser } from "../../core/door";
import { ask, command, serviceHash } from "../../core/rpc";

interface Version { version: string; weight: number; sessions?: string[]; code?: string }

export function Adoption({ type }: { type: string }) {
  const found = useSignal<Version[]>([]), asking = useSignal(false), failure = useSignal("");
  const look = async () => {
    const { sessions } = await ask<{ sessions?: string[] }>("syscall_describe", [{ name: type }]);
    if (!sessions) { found.value = []; return; }
    const { versions } = await ask<{ versions: Version[] }>("syscall_versions", [{ name: type }]);
    found.value = await Promise.all(versions.filter((one) => one.sessions && one.weight > 0) // with its code, for those who may see that
      .map(async ({ version }) => (await ask<{ versions: Version[] }>("syscall_versions", [{ name: type, version }])).versions[0]));
  };
  useEffect(() => effect(() => {
    void serviceHash.value;
    void browser.value; // the owner sees the code
    void look().catch(() => { found.value = []; }); // it isn't code, or not for this browser to see
  }), []);
  if (!found.value.length) return null;

  const adopt = async () => {
    asking.value = false;
    try {
      for (const { version } of found.peek()) await command("syscall_adopt", [{ name: type, version }]); // what was read, and nothing newer
      await look();
    } catch (refusal) { failure.value = (refusal as Error).message; }
  };
  const sessions = [...new Set(found.value.flatMap((one) => one.sessions ?? []))];
  return (
    <div class="guidance summary" data-testid="adoption">
      <p>A model has registered this code in the session {sessions.join(", ")}. Until the code is adopted, the rules of that session decide about what it calls.</p>
      {browser.value?.owner ? (
        <>
          {found.value.map(({ version, code }) => code && <details key={version}><summary>Code of version {version}</summary><pre>{code}</pre></details>)}
          {asking.value ? (
            <div class="row" role="alert">
              <span class="spread">Then the code may do, without asking, what its callers and its author may do. Have you read it?</span>
              <button data-testid="adopt" onClick={() => void adopt()}>Adopt it</button>
              <button class="plain" onClick={() => { asking.value = false; }}>Don't</button>
            </div>
          ) : <button data-testid="adopt" onClick={() => { asking.value = true; }}>Adopt this code</button>}
        </>
      ) : <p>To adopt it, type <code>kernos register --adopt {type}</code> in a terminal, or open the console with <code>kernos console --owner</code>.</p>}
      {failure.value && <p class="error" role="alert">{failure.value}</p>}
    </div>
  );
}
