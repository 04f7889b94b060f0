import { SvelteMap } from "svelte/reactivity";
import { get } from "./api";

/** Problems of runs in lists, by key; "" if none. Rows ask for what they do not know, all in a few requests. */
const known = new SvelteMap<string, string>();
const MOST = 50, MOMENT_MS = 60;
let due = new Set<string>();

/** Return the first open problem of a run, "" until it is known. */
export function problemOf(key: string): string {
  const problem = known.get(key);
  if (problem === undefined && !due.has(key)) {
    if (!due.size) setTimeout(() => void askAll(), MOMENT_MS);
    due.add(key);
  }
  return problem ?? "";
}

async function askAll(): Promise<void> {
  const keys = [...due];
  due = new Set();
  for (let at = 0; at < keys.length; at += MOST) {
    const some = keys.slice(at, at + MOST);
    let found: Record<string, string> = {};
    try {
      found = await get<Record<string, string>>("problems", { run: some });
    } catch { /* the name of the finding stays */ }
    for (const key of some) known.set(key, found[key] ?? "");
  }
}
