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

/** Distances between ticks of an axis of seconds. */
export const TIME_TICKS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 432000, 864000, 2592000];
