// The versions of a key, and bringing one back.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { isSealed } from "../../core/json";
import { link } from "../../core/route";
import { ask, type CallError } from "../../core/rpc";
import { date } from "../../core/time";
import { Diff } from "../../parts/diff";
import { roving } from "../../parts/roving";
import { type Value, written } from "./store";

interface Version { revision: number; value?: unknown; valueRef?: unknown; size?: number; deleted?: boolean; updated: number; message: string; expires?: number }

/** `now` is absent if the key doesn't exist at the moment. */
export function Versions({ name, now, restore }: { name: string; now?: Value; restore(value: unknown): void }) {
  const versions = useSignal<Version[]>([]), cursor = useSignal<string | undefined>(undefined), failure = useSignal(""), looked = useSignal(0);
  const load = async (after?: string) => {
    try {
      const page = await ask("memory_history", [{ key: name, cursor: after, limit: 20 }]);
      versions.value = after ? [...versions.peek(), ...page.versions] : page.versions;
      cursor.value = page.cursor;
    } catch (error) { if ((error as CallError).code !== 404) failure.value = (error as Error).message; } // the view says so of the key
  };
  useEffect(() => { void load(); }, [name, now?.revision]);
  const bring = async (version: Version) => {
    try { restore(version.valueRef ? await ask("memory_get", [{ key: name, revision: version.revision }]) : version.value); } catch (error) { failure.value = (error as Error).message; }
  };
  const text = (value: unknown) => written(value, typeof value === "string" ? "text" : "json");
  if (failure.value) return <p class="problem body" role="alert">{failure.value}</p>;
  if (!versions.value.length) return null;
  return (
    <section class="history" data-testid="versions">
      <h3>Versions</h3>
      <ul ref={roving}>
        {versions.value.map((version) => {
          const current = version.revision === now?.revision, has = version.value !== undefined || version.valueRef !== undefined;
          return (
            <li key={version.revision} data-testid="version">
              <div class="row version">
                <span class="mono">{version.revision}</span><span class="faint">{date(version.updated)}</span>
                <a class="mono faint clip" href={link("messages", [version.message])}>{version.message}</a>
                {version.deleted ? <span class="quiet">deleted</span> : !has ? <span class="quiet">expired</span> : current ? <span class="quiet">current</span> : isSealed(version.value) ? <span class="quiet">sealed</span> : (
                  <>
                    {version.value !== undefined && <button class="small" aria-expanded={looked.value === version.revision} onClick={() => { looked.value = looked.peek() === version.revision ? 0 : version.revision; }}>Compare</button>}
                    <button class="small" data-testid="restore" onClick={() => void bring(version)}>Restore</button>
                  </>
                )}
              </div>
              {looked.value === version.revision && <Diff before={text(version.value)} after={now ? text(now.value) : ""} label={`Version ${version.revision} and the current one`} />}
            </li>
          );
        })}
      </ul>
      {cursor.value && <button class="small" onClick={() => void load(cursor.peek())}>Earlier versions</button>}
    </section>
  );
}
