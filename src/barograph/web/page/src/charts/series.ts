import uPlot from "uplot";
import type { Line } from "../lib/types";

/** Lines of charts as the tables that are drawn. Nothing here depends on the page. */

export type Points = (number | null | undefined)[];
export type Span = [number, number];

/** Positions of the points of a line on the x axis. */
export const xsOf = (line: Line): number[] => (line.positions.length ? line.positions : line.steps);

/** Index of the position nearest to `x`, in ascending positions. */
export function nearest(xs: readonly number[], x: number): number {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1]! <= xs[low]! - x ? low - 1 : low;
}

/**
 * One table of all lines. Lines with few points keep each where it is; of lines with many, each column of pixels keeps
 * the minimum and the maximum, so that twenty runs do not make a table of twenty times the length.
 */
export function tableOf(lines: readonly Line[], columns: number, place: (x: number) => number): uPlot.AlignedData {
  if (!lines.length) return [[]];
  const count = lines.reduce((sum, line) => sum + line.steps.length, 0);
  if (lines.length === 1 || count <= 4 * columns) return uPlot.join(lines.map((line): uPlot.AlignedData => [xsOf(line), numbers(line)]));
  const all = lines.flatMap((line) => { const xs = xsOf(line); return xs.length ? [xs[0]!, xs.at(-1)!] : []; });
  const low = Math.min(...all), high = Math.max(...all);
  const from = place(low), wide = place(high) - from || 1;
  const grid = new Map<number, number>();
  const filled = lines.map((line) => {
    const xs = xsOf(line), values = numbers(line), slots = new Map<number, number | null>();
    for (let at = 0; at < xs.length;) {
      const column = Math.min(columns - 1, Math.floor(((place(xs[at]!) - from) / wide) * columns));
      let least = -1, most = -1;
      for (; at < xs.length && Math.min(columns - 1, Math.floor(((place(xs[at]!) - from) / wide) * columns)) === column; at += 1) {
        const value = values[at];
        if (typeof value !== "number") continue;
        if (least < 0 || value < (values[least] as number)) least = at;
        if (most < 0 || value > (values[most] as number)) most = at;
      }
      if (least < 0) {
        slots.set(2 * column, null);
        continue;
      }
      const [first, second] = least <= most ? [least, most] : [most, least];
      slots.set(2 * column, values[first]!);
      if (!grid.has(2 * column)) grid.set(2 * column, xs[first]!);
      if (second !== first) {
        slots.set(2 * column + 1, values[second]!);
        if (!grid.has(2 * column + 1)) grid.set(2 * column + 1, xs[second]!);
      }
    }
    return slots;
  });
  const keys = [...grid.keys()].sort((a, b) => a - b);
  // Ascending, though the second point of one line may lie before the first of another in the same column.
  const xs = keys.map((key) => grid.get(key)!);
  for (let at = 1; at < xs.length; at += 1) if (xs[at]! <= xs[at - 1]!) xs[at] = xs[at - 1]! + (high - low) * 1e-9;
  return [xs, ...filled.map((slots) => keys.map((key) => slots.get(key)))] as unknown as uPlot.AlignedData;
}

const numbers = (line: Line): (number | null)[] => line.values.map((value) => (typeof value === "number" ? value : null));

/**
 * Points that one value of each smoothed line is an average of: from one to a quarter of those of the longest line, and of
 * the others those of the same part of the x axis, so that an evaluation loss is not smoothed over the whole training.
 */
export function windowsOf(lines: readonly Line[], smoothing: number): number[] {
  const density = (line: Line) => line.count / (Number(line.span[1]) - Number(line.span[0]) || 1);
  const longest = lines.reduce<Line | undefined>((found, line) => (found && found.count >= line.count ? found : line), undefined);
  return lines.map((line) => (Math.max(1, longest!.count / 4) ** smoothing * density(line)) / density(longest!));
}

/**
 * Exponential average over about `window` points of the recorded line, from the means of its parts, so that it does not
 * change with the number of points that are drawn. Starts without bias; a part without numbers is a gap. Not smoothed with a window of one point.
 */
export function smoothed(line: Line, window: number): [number[], (number | null)[]] {
  const at = line.mean_at ?? [], means = line.means ?? [], counts = line.mean_counts ?? [];
  let mean = 0, mass = 0;
  return [at, means.map((value, place) => {
    if (value === null) return null;
    const keep = window > 1 ? Math.exp(-(counts[place] ?? 1) / window) : 0;
    mean = keep * mean + (1 - keep) * value;
    mass = keep * mass + (1 - keep);
    return mean / mass;
  })];
}

/** Range of the y axis: of all points, or without outliers of each line; and the number of points beyond it. */
export function rangeOf(table: uPlot.AlignedData, count: number, xs: Span | undefined, { log, outliers }: { log: boolean; outliers: boolean }): { range: Span; beyond: number; below: number; drawn: number } {
  let low = Infinity, high = -Infinity, below = 0;
  const seen: number[][] = [];
  for (let line = 1; line <= count; line += 1) {
    const mine: number[] = [];
    table[line]!.forEach((value, at) => {
      const x = table[0]![at]!;
      if (typeof value !== "number" || (xs && (x < xs[0] || x > xs[1]))) return;
      if (log && value <= 0) below += 1;
      else mine.push(value);
    });
    seen.push(mine);
    if (!mine.length) continue;
    const [least, most] = outliers ? extremes(mine) : usual(mine, log);
    low = Math.min(low, least);
    high = Math.max(high, most);
  }
  if (low > high) return { range: log ? [0.1, 1] : [0, 1], beyond: 0, below, drawn: 0 };
  const beyond = outliers ? 0 : seen.reduce((sum, mine) => sum + mine.filter((value) => value < low || value > high).length, 0);
  const drawn = seen.reduce((sum, mine) => sum + mine.length, 0);
  if (log) {
    const pad = (high / low) ** 0.04;
    return { range: low === high ? [low / 2, high * 2] : [low / pad, high * pad], beyond, below, drawn };
  }
  const pad = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
  return { range: [low - pad, high + pad], beyond, below, drawn };
}

function extremes(values: number[]): Span {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** Range of a line without outliers: within three times the distance between its quartiles (Tukey's outer fences). */
function usual(values: number[], log: boolean): Span {
  const sorted = [...values].sort((a, b) => a - b), of = (value: number) => (log ? Math.log(value) : value);
  const quantile = (q: number) => of(sorted[Math.round(q * (sorted.length - 1))]!);
  const wide = 3 * (quantile(0.75) - quantile(0.25));
  // Of a line that is constant nearly everywhere, all but the rarest values.
  const [low, high] = wide > 0 ? [quantile(0.25) - wide, quantile(0.75) + wide] : [quantile(0.03), quantile(0.97)];
  return [sorted.find((value) => of(value) >= low)!, sorted.findLast((value) => of(value) <= high)!];
}

/** Where NaN and infinities are, on the x axis. */
export const brokenAt = (lines: readonly Line[]): Span[] => lines.flatMap((line) => (line.positions.length ? line.nonfinite_at : line.nonfinite_steps));
