import { bytes, duration, figure } from "../lib/format";

/** Units of axes, and numbers in them. */
export type Unit = "" | "secs" | "bytes" | "percent";

export function unitOf(name: string): Unit {
  if (/^time:/.test(name)) return "secs";
  if (/^machine:(memory|memory_total|process_memory|gpu_memory_bytes|disk|net)/.test(name)) return "bytes";
  if (/^machine:(cpu|process_cpu|gpu)/.test(name)) return "percent";
  return "";
}

export function inUnit(value: number | string | null | undefined, unit: Unit): string {
  if (typeof value !== "number") return figure(value);
  if (unit === "secs") return span(value);
  if (unit === "bytes") return bytes(value);
  return unit === "percent" ? `${figure(value)}%` : figure(value);
}

/** A time that may be far below a second. */
export function span(secs: number): string {
  const size = Math.abs(secs);
  if (size > 0 && size < 1e-3) return `${figure(secs * 1e6)} µs`;
  if (size > 0 && size < 1) return `${figure(secs * 1e3)} ms`;
  return duration(secs);
}

/** Numbers of an axis: as many digits as tell neighbors apart, thousands as k, M, G. */
export function ticksIn(ticks: readonly (number | null)[], unit: Unit, log = false): string[] {
  const there = ticks.filter((tick): tick is number => tick !== null);
  const most = Math.max(...there.map(Math.abs), 0);
  const gap = Math.min(...there.slice(1).map((tick, at) => Math.abs(tick - there[at]!)).filter((wide) => wide > 0), Infinity);
  return ticks.map((tick) => {
    if (tick === null) return "";
    if (unit === "secs" || unit === "bytes") return inUnit(tick, unit);
    const percent = unit === "percent" ? "%" : "";
    if (tick === 0) return `0${percent}`;
    const [size, sign] = prefix(log ? Math.abs(tick) : most);
    // On a log axis neighbors differ by their size, and each is short by itself.
    if (log || !Number.isFinite(gap) || most / gap > 1e4 || most < 1e-3) return `${figure(Number((tick / size).toPrecision(3)))}${sign}${percent}`;
    // The fewest that leave the distance as it is: 2 for 0.25.
    const digits = [0, 1, 2, 3, 4, 5, 6, 7].find((few) => Math.abs(Number((gap / size).toFixed(few)) - gap / size) < 1e-9 * gap / size) ?? 8;
    return `${(tick / size).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })}${sign}${percent}`;
  });
}

/** Ticks of a log axis: decades, of many every few; of up to three with what lies between them. Linear between -1 and 1 where there is a 0. */
export function logTicks(low: number, high: number): number[] {
  const negative = low < 0 ? decades(Math.max(0, -high), -low).map((tick) => -tick).reverse() : [];
  return [...negative, ...(low <= 0 && high >= 0 ? [0] : []), ...(high > 0 ? decades(Math.max(0, low), high) : [])];
}
function decades(low: number, high: number): number[] {
  const last = Math.floor(Math.log10(high)), first = low > 0 ? Math.floor(Math.log10(low)) : Math.min(0, last);
  const every = Math.ceil((last - first) / 6), leads = last - first < 4 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : [1];
  return Array.from({ length: last - first + 1 }, (_, at) => first + at).filter((power) => every < 2 || power % every === 0)
    .flatMap((power) => leads.map((lead) => Number(`${lead}e${power}`))).filter((tick) => tick >= low && tick <= high);
}

const prefix = (size: number): [number, string] => (size >= 1e15 ? [1, ""] : size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e4 ? [1e3, "k"] : [1, ""]);

/** Distances between ticks of an axis of steps: whole, also where a chart has only one step. */
export const STEP_TICKS = Array.from({ length: 16 }, (_, exponent) => [1, 2, 2.5, 5].map((lead) => lead * 10 ** exponent)).flat().filter(Number.isInteger);
/** Distances between ticks of an axis of seconds. */
export const TIME_TICKS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 432000, 864000, 2592000];
