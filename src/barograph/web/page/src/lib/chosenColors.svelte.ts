import { SvelteMap } from "svelte/reactivity";
import { untrack } from "svelte";
import { get } from "./api";
import { colorAt, freePlace, placeOf, usualPlace } from "./runColor";

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

/** Places in the palette of runs that were shown together. A run keeps its place on every page, unless two of them meet. */
const places = new SvelteMap<string, number>();

/** Give runs that are shown together different colors while there are free ones. Of two with one color, the first keeps it. */
export function settle(keys: readonly string[]): void {
  const colors = keys.map((key) => chosen.get(key) ?? "");
  untrack(() => {
    const taken = new Set(colors.map(placeOf).filter((place) => place >= 0)), own = keys.filter((_, at) => !colors[at]);
    // Those that have a color are first, and the others in their order, so that further runs change none.
    for (const key of [...own.filter((one) => places.has(one)), ...own.filter((one) => !places.has(one))]) {
      const usual = places.get(key) ?? usualPlace(key), place = taken.has(usual) ? freePlace(taken, usual) : usual;
      taken.add(place);
      if (places.get(key) !== place) places.set(key, place);
    }
  });
}

/** Return the color of a run. `color` is the one that a user chose, "" if none; it is asked for if it is not given. */
export function colorOfRun(key: string, dark: boolean, color = chosen.get(key)): string {
  if (color === undefined) askFor(key);
  return color || colorAt(places.get(key) ?? usualPlace(key), dark);
}
