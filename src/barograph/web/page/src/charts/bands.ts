import uPlot from "uplot";
import { get } from "../lib/api";
import { plural } from "../lib/format";
import type { Band, Bands, Line, RunLines } from "../lib/types";
import type { Wanted } from "./lines";

/** Lines of groups of runs: the mean, and a band around it. Nothing here depends on the page. */

/** How runs are grouped: a name per group, and the group of each run. */
export type Groups = { names: string[]; of: number[] };
export type Spread = "error" | "range";
export const SPREADS: Record<Spread, string> = { error: "± standard error", range: "min to max" };
/** A line with what surrounds it. */
export type Banded = Line & { band: Band };

/** Return the groups that `labels`, one per run, make; in the order of numbers, or of the alphabet. `by` names what they are values of. */
export function groupsOf(labels: readonly string[], by = ""): Groups {
  const names = [...new Set(labels)], numeric = names.every((name) => name !== "" && Number.isFinite(Number(name)));
  names.sort((a, b) => (numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true })));
  return { names: names.map((name) => (by ? `${by} = ${name}` : name)), of: labels.map((label) => names.indexOf(label)) };
}

export async function bandLines({ runs, names, points, x, from, to, logx, statistic }: Wanted, groups: Groups, signal: AbortSignal): Promise<RunLines[]> {
  const found = await get<Bands>("bands", { run: runs, group: groups.of.map(String), name: names, points, x, from, to, logx: logx ? 1 : undefined, statistic }, signal);
  const problems = Object.entries(found.problems).map(([run, text]) => `${run}: ${text}`);
  return groups.names.map((_, at) => ({ lines: (found.groups[at] ?? []).map((band) => lineOf(band, !x)), missing: [], ...(at || !problems.length ? {} : { error: problems.join(" · ") }) }));
}

function lineOf(band: Band, bySteps: boolean): Banded {
  const known = band.mean.filter((value): value is number => value !== null);
  return {
    name: band.name, statistic: "", mode: band.mode, optimizer: "", count: band.at.length, last: band.mean.at(-1) ?? null, least: Math.min(...known), greatest: Math.max(...known),
    nonfinite: band.nonfinite, nonfinite_steps: band.nonfinite_at, nonfinite_at: band.nonfinite_at, span: band.at.length ? [band.at[0]!, band.at.at(-1)!] : [],
    steps: band.at, positions: bySteps ? [] : band.at, values: band.mean, band,
  };
}

/** Lower and upper edge of a band at a point; null where there is none. */
export function edges(band: Band, at: number, spread: Spread): [number, number] | null {
  if (spread === "range") return typeof band.least[at] === "number" && typeof band.greatest[at] === "number" ? [band.least[at], band.greatest[at]] : null;
  const mean = band.mean[at], error = band.error[at];
  return typeof mean === "number" && typeof error === "number" ? [mean - error, mean + error] : null;
}

/**
 * One table for the chart: for each line the mean of all its runs, the mean where only some of them contribute, and the two edges
 * of the band, four columns after the positions.
 */
export function bandTable(lines: readonly Banded[], spread: Spread): uPlot.AlignedData {
  if (!lines.length) return [[]];
  return uPlot.join(lines.map(({ band }) => {
    const all = (at: number) => band.counts[at] === band.runs;
    const low: (number | null)[] = [], high: (number | null)[] = [];
    band.at.forEach((_, at) => {
      const found = edges(band, at, spread);
      low.push(found?.[0] ?? null);
      high.push(found?.[1] ?? null);
    });
    // Both parts have the point at which they meet.
    const partly = band.mean.map((value, at) => (!all(at) || (at > 0 && !all(at - 1)) || (at + 1 < band.at.length && !all(at + 1)) ? value : null));
    return [band.at, band.mean.map((value, at) => (all(at) ? value : null)), partly, high, low] as unknown as uPlot.AlignedData;
  }));
}

/** What a reader must know: runs that end early or lack the line, and NaN. */
export function bandNotes(lines: readonly Banded[], groups: Groups, label: (line: number) => string): string[] {
  const sizes = groups.names.map((_, group) => groups.of.filter((one) => one === group).length);
  return lines.flatMap(({ band, run }: Banded & { run?: number }, at) => {
    const notes: string[] = [], size = sizes[run ?? 0] ?? band.runs;
    if (band.runs < size) notes.push(`${band.runs} of ${plural(size, "run")} recorded it`);
    const first = band.counts.findIndex((count) => count < band.runs), least = Math.min(...band.counts);
    if (first >= 0) notes.push(`dashed: only ${least === Math.max(...band.counts.filter((count) => count < band.runs)) ? least : `${least} to ${band.runs - 1}`} of ${plural(band.runs, "run")}`);
    if (band.nonfinite) notes.push(`${plural(band.nonfinite, "run")} with NaN, left out there`);
    return notes.length ? [`${label(at)}: ${notes.join(", ")}`] : [];
  });
}
