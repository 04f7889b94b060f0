import { SvelteMap } from "svelte/reactivity";
import { get } from "./api";
import { runColor } from "./runColor";

/** Colors that users chose for runs, by key; "" if none. Charts ask for what they do not know, all in one request. */
const chosen = new SvelteMap<string, string>();
let due = new Set<string>();

function askFor(key: string): void {
  if (!due.size) queueMicrotask(() => void askAll());
  due.add(key);
}

async function askAll(): Promise<void> {
  const keys = [...due];
  due = new Set();
  try {
    const found = await get<Record<string, string>>("colors", { run: keys });
    for (const key of keys) learn(key, found[key] ?? "");
  } catch {
    for (const key of keys) learn(key, ""); // a chart is drawn in the usual colors where they cannot be asked for
  }
}

export function learn(key: string, color: string): void {
  if (chosen.get(key) !== color) chosen.set(key, color);
}

/** Return the color of a run in a chart. */
export function colorOfRun(key: string, dark: boolean): string {
  const color = chosen.get(key);
  if (color === undefined) askFor(key);
  return runColor(key, dark, color ?? "");
}
