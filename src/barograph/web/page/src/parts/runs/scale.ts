import { figure } from "../../lib/format";

/** A scale of an axis: numbers, linear or logarithmic, or the different texts of a column. */
export type Scale = {
  /** Where a value lies, 0 to 1; NaN if it has no place. */
  share: (value: unknown) => number;
  /** The number at a share; for texts their place in `texts`. */
  invert: (share: number) => number;
  low: number;
  high: number;
  ticks: { share: number; label: string; value: number | string }[];
  texts: string[] | null;
  /** Values that have no place: not recorded, NaN, infinite, or not above 0 on a log axis. */
  left: number;
};

const MOST_TEXTS = 24;

const text = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

export function scaleOf(values: readonly unknown[], log: boolean): Scale {
  const there = values.filter((value) => value !== null && value !== undefined);
  if (there.some((value) => typeof value !== "number" && value !== "inf" && value !== "-inf")) return ofTexts(values, there.map(text));
  const fits = (value: unknown): value is number => typeof value === "number" && (!log || value > 0);
  let low = Infinity, high = -Infinity, left = 0;
  for (const value of values) {
    if (!fits(value)) left += 1;
    else {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return { share: () => NaN, invert: () => NaN, low, high, ticks: [], texts: null, left };
  const up = log ? Math.log10 : (value: number) => value, down = log ? (value: number) => 10 ** value : (value: number) => value;
  let from = up(low), to = up(high);
  if (from === to) {
    const half = log ? 0.5 : Math.abs(from) / 2 || 1;
    from -= half;
    to += half;
  } else {
    const pad = (to - from) * 0.03;
    from -= pad;
    to += pad;
  }
  const share = (value: unknown) => (fits(value) ? (up(value) - from) / (to - from) : NaN);
  const ticks = (log ? logTicks(from, to) : linearTicks(from, to, values.every((value) => !fits(value) || Number.isInteger(value)))).map((value) => ({ share: share(value), label: figure(value), value }));
  return { share, invert: (at) => down(from + at * (to - from)), low, high, ticks, texts: null, left };
}

function ofTexts(values: readonly unknown[], there: string[]): Scale {
  const counts = new Map<string, number>();
  for (const one of there) counts.set(one, (counts.get(one) ?? 0) + 1);
  const texts = [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST_TEXTS).map(([one]) => one).sort();
  const place = new Map(texts.map((one, at) => [one, (at + 0.5) / texts.length]));
  const share = (value: unknown) => (value === null || value === undefined ? NaN : (place.get(text(value)) ?? NaN));
  return {
    share, invert: (at) => Math.floor(at * texts.length), low: 0, high: texts.length - 1, texts, left: values.filter((value) => Number.isNaN(share(value))).length,
    ticks: texts.map((label, at) => ({ share: (at + 0.5) / texts.length, label, value: label })),
  };
}

function linearTicks(from: number, to: number, whole = false): number[] {
  const rough = Math.max((to - from) / 5, whole ? 1 : 0), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough)!;
  const found: number[] = [];
  for (let at = Math.ceil(from / step); at * step <= to; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

function logTicks(from: number, to: number): number[] {
  const whole: number[] = [];
  for (let power = Math.ceil(from); power <= to; power++) whole.push(power);
  if (whole.length < 2) return linearTicks(10 ** from, 10 ** to).filter((value) => value > 0);
  const every = Math.ceil(whole.length / 6);
  return whole.filter((_, at) => at % every === 0).map((power) => Number((10 ** power).toPrecision(12)));
}

/** Whether an axis of these values is easier to read on a log scale: positive, and over two decades wide. */
export function wantsLog(values: readonly unknown[]): boolean {
  let low = Infinity, high = 0;
  for (const value of values) {
    if (typeof value !== "number") continue;
    if (value <= 0) return false;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return high / low >= 100;
}
