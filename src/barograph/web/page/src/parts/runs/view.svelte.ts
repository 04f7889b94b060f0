import type { Query } from "../../lib/api";
import { address, change } from "../../lib/route.svelte";

/** Time after which charts and groups of the listed runs are asked for again. */
export const CHART_MS = 15_000;

/** What the page of runs shows, as the address says it. Lists are separated by line breaks. */
const text = (name: string) => address.now.query.get(name) ?? "";
const list = (name: string) => text(name).split("\n").filter(Boolean);

export const view = {
  get root() { return Number(text("root") || 0); },
  get search() { return text("q"); },
  get order() { return text("order"); },
  /** Searches that narrow it further: ranges brushed in charts. */
  get filters() { return list("filter"); },
  get columns() { return list("column"); },
  get differs() { return text("differs") === "1"; },
  get by() { return list("by"); },
  get metric() { return text("metric"); },
  /** "1": less of the metric is better; "0": more is; "": by its name. */
  get less() { return text("less"); },
  get chart() { return text("chart"); },
  get x() { return text("x"); },
  get y() { return text("y"); },
  get color() { return text("color"); },
  get logs() { return list("log"); },
  get axes() { return list("axis"); },
  get runs() { return address.now.query.getAll("run"); },
  /** The runs that match, for every question to the server. */
  get question(): Query { return { root: this.root, q: this.search, filter: this.filters }; },
};

type Change = Partial<Record<"root" | "q" | "order" | "differs" | "metric" | "less" | "chart" | "x" | "y" | "color", string | number | undefined>> &
  Partial<Record<"filter" | "column" | "by" | "log" | "axis", readonly string[]>>;

export function show(changed: Change): void {
  change(Object.fromEntries(Object.entries(changed).map(([name, value]) => [name, typeof value === "object" ? value.join("\n") : value])), true);
}

/** Choose runs, for a comparison. */
export function choose(keys: Iterable<string>, chosen: boolean): void {
  const next = new Set(view.runs);
  for (const key of keys) chosen ? next.add(key) : next.delete(key);
  const asked = new URLSearchParams(address.now.query);
  asked.delete("run");
  for (const key of next) asked.append("run", key);
  location.replace(`#/runs${asked.size ? `?${asked}` : ""}`);
}

const STATISTIC = /^metrics\.(.*)\.(last|min|max|mean|std|count|first_step|last_step)$/;

/** Return the name of the metric that a column is a statistic of. */
export const metricOf = (column: string): string => STATISTIC.exec(column)?.[1] ?? column.replace(/^metrics\./, "");

/** Return the name of a column for people: "loss", "val/acc max", "lr". */
export function labelOf(column: string): string {
  const HEADS: Record<string, string> = { created_unix: "created", started_unix: "started", ended_unix: "ended", changed_unix: "changed", trials: "trial", by: "user", findings: "problem" };
  const metric = STATISTIC.exec(column);
  if (metric) return metric[2] === "last" ? metric[1]! : `${metric[1]} ${metric[2]}`;
  return HEADS[column] ?? column.replace(/^(params|tags)\./, "");
}

/** Return a column as a search has it, "" if runs cannot be sorted by it. */
export function fieldOf(column: string): string {
  if (column === "findings" || column === "trials") return "";
  if (column === "by") return "user";
  const metric = STATISTIC.exec(column), named = /^(params|tags)\.(.*)$/.exec(column);
  if (metric) return `metrics.${quoted(metric[1]!)}.${metric[2]}`;
  return named ? `${named[1]}.${quoted(named[2]!)}` : column;
}

const PLAIN = /^[\p{L}_][\p{L}\p{N}_-]*(?:\.[\p{L}_][\p{L}\p{N}_-]*)*$/u;
const ENDING = /(?:-$|-\.|(?:^|\.)(?:last|min|max|mean|std|count|first_step|last_step)$)/;

function quoted(name: string): string {
  return PLAIN.test(name) && !ENDING.test(name) ? name : `"${name.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** Return the condition that a column lies in a range. */
export function within(column: string, low: number, high: number): string {
  return `${fieldOf(column)} >= ${low} and ${fieldOf(column)} <= ${high}`;
}

/** Return the range of a column that a filter sets; undefined if it is of another column. */
export function rangeIn(filters: readonly string[], column: string): [number, number] | undefined {
  const field = fieldOf(column);
  for (const filter of filters) {
    if (!filter.startsWith(`${field} >= `)) continue;
    const [low, high] = filter.slice(field.length + 4).split(` and ${field} <= `).map(Number);
    if (low !== undefined && high !== undefined) return [low, high];
  }
  return undefined;
}

/** Set the range of a column, or remove it. */
export function narrow(column: string, range: [number, number] | undefined): void {
  const others = view.filters.filter((filter) => !filter.startsWith(`${fieldOf(column)} >= `));
  show({ filter: range ? [...others, within(column, ...range)] : others });
}

/** The column that most runs have a value of, the first of several. */
export const mostKnown = (columns: readonly { name: string; runs: number }[]): string =>
  columns.reduce<{ name: string; runs: number } | undefined>((most, column) => (most && most.runs >= column.runs ? most : column), undefined)?.name ?? "";

/** Return the first choice that was found for a search: columns of runs that arrive later do not change it. */
export function firstFor<T extends { length: number }>(search: () => string, find: () => T): () => T {
  let kept: { search: string; choice: T } | undefined;
  const first = $derived.by(() => {
    const now = search(), choice = find();
    if (kept?.search !== now || !kept.choice.length) kept = { search: now, choice };
    return kept.choice;
  });
  return () => first;
}
