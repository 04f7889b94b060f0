import { SvelteMap } from "svelte/reactivity";
import { get } from "./api";

/** Problems of runs in lists, by key; "" if none. Rows ask for what they do not know, all in a few requests. */
const known = new SvelteMap<string, { findings: string; problem: string }>();
const MOST = 50, MOMENT_MS = 60;
let due = new Map<string, string>();

/**
 * Return the first open problem of a run, "" until it is known. `findings`: its findings as text; when they change, the problem
 * is asked for again.
 */
export function problemOf(key: string, findings: string): string {
  const before = known.get(key);
  if (before?.findings !== findings && due.get(key) !== findings) {
    if (!due.size) setTimeout(() => void askAll(), MOMENT_MS);
    due.set(key, findings);
  }
  return before?.problem ?? "";
}

async function askAll(): Promise<void> {
  const asked = [...due];
  due = new Map();
  for (let at = 0; at < asked.length; at += MOST) {
    const some = asked.slice(at, at + MOST);
    try {
      const found = await get<Record<string, string>>("problems", { run: some.map(([key]) => key) });
      for (const [key, findings] of some) known.set(key, { findings, problem: found[key] ?? "" });
    } catch { /* the name of the finding stays; the next change of the list asks again */ }
  }
}
