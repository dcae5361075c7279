// A part of the page that is fetched when it is first shown. A browser doesn't fetch again what it has failed to fetch, until the page is
// loaded again.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

export function Lazy({ load }: { load: () => Promise<{ default: ComponentType }> }) {
  const [Loaded, set] = useState<ComponentType | undefined>(), [failed, fail] = useState(false);
  useEffect(() => {
    let here = true;
    void load().then((module) => { if (here) set(() => module.default); }, () => { if (here) fail(true); });
    return () => { here = false; };
  }, [load]);
  if (failed) return <div class="empty" data-testid="unfetched"><p>This view couldn't be fetched: there was no connection to the kernel.</p><button onClick={() => location.reload()}>Load the page again</button></div>;
  return Loaded ? <Loaded /> : null;
}
