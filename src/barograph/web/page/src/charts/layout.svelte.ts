import { address, change } from "../lib/route.svelte";

/** How charts are laid out: in the address, so that a link shows the same, and kept in the browser for the next run. */

const KEPT = "barograph-charts";
const NAMES = ["x", "logx", "log", "smooth", "outliers", "pin", "add", "size", "spread"] as const;
export type Name = (typeof NAMES)[number];

/** Show the layout of the last visit, unless the address has one. */
export function recall(): void {
  if (NAMES.some((name) => address.now.query.has(name))) return;
  let kept: unknown;
  try {
    kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  } catch {
    localStorage.removeItem(KEPT);
  }
  if (kept && typeof kept === "object" && Object.keys(kept).length) change(kept as Record<string, string>, true);
}

export const layout = (name: Name): string => address.now.query.get(name) ?? "";
export const listed = (name: Name): string[] => layout(name).split("\n").filter(Boolean);

export function lay(values: Partial<Record<Name, string | number>>): void {
  change(values, true);
  const kept = Object.fromEntries(NAMES.map((name) => [name, layout(name)]).filter(([, value]) => value));
  localStorage.setItem(KEPT, JSON.stringify(kept));
}
