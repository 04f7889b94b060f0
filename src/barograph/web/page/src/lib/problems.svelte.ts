import { SvelteMap } from "svelte/reactivity";
import { get } from "./api";

/**
 * Problems of runs, by the kind of list and key; "" if none. Rows ask for what they do not know, all in a few requests. Runs and
 * groups tell changes by different texts.
 */
const known = new SvelteMap<string, { findings: string; problem: string }>();
const MOST = 50, MOMENT_MS = 60;
let due = new Map<string, { key: string; findings: string }>();

/**
 * Return the first open problem of a run, "" until it is known. `findings`: findings in the list as text; when they change, the
 * problem is asked for again.
 */
export function problemOf(key: string, findings: string, list: "runs" | "groups"): string {
  const place = `${list} ${key}`, before = known.get(place);
  if (before?.findings !== findings && due.get(place)?.findings !== findings) {
    if (!due.size) setTimeout(() => void askAll(), MOMENT_MS);
    due.set(place, { key, findings });
  }
  return before?.problem ?? "";
}

async function askAll(): Promise<void> {
  const asked = [...due];
  due = new Map();
  for (let at = 0; at < asked.length; at += MOST) {
    const some = asked.slice(at, at + MOST);
    try {
      const found = await get<Record<string, string>>("problems", { run: [...new Set(some.map(([, { key }]) => key))] });
      for (const [place, { key, findings }] of some) known.set(place, { findings, problem: found[key] ?? "" });
    } catch { /* the name of the finding stays; the next change of the list asks again */ }
  }
}
