// A part of the page that is fetched when it is first shown.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

export function Lazy({ load }: { load: () => Promise<{ default: ComponentType }> }) {
  const [Loaded, set] = useState<ComponentType | undefined>();
  useEffect(() => {
    let here = true;
    void load().then((module) => { if (here) set(() => module.default); });
    return () => { here = false; };
  }, [load]);
  return Loaded ? <Loaded /> : null;
}
