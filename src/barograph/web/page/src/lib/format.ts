/** Numbers and times as people read them. */
import { clock } from "./clock.svelte";
import type { Value } from "./types";

/** Return a number of an answer, in which JSON has no infinities; null if it is NaN or missing. */
export function numberOf(value: Value): number | null {
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
}

/** Three significant digits; a whole number as it is. */
export function figure(value: number | string | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value; // "inf", "-inf"
  if (Number.isNaN(value)) return "NaN";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(size >= 1000 ? 4 : 3)));
}

/** A number that was recorded: null is NaN, which JSON lacks. */
export const recorded = (value: number | string | null | undefined): string => (value === null ? "NaN" : figure(value));

export function share(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : `${figure(value * 100)}%`;
}

export function duration(secs: number | null | undefined): string {
  if (secs === null || secs === undefined || Number.isNaN(secs)) return "–";
  if (secs < 60) return `${figure(Math.round(secs * 10) / 10)} s`;
  const minutes = Math.floor(secs / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(secs % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function ago(unix: Value | undefined): string {
  if (typeof unix !== "number") return "–";
  const secs = clock.ms / 1000 - unix;
  if (secs < 60) return "just now";
  if (secs < 3600) return `${Math.floor(secs / 60)} min ago`;
  if (secs < 86400) return `${Math.floor(secs / 3600)} h ago`;
  if (secs < 86400 * 14) return `${Math.floor(secs / 86400)} d ago`;
  return new Date(unix * 1000).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (count >= 1000 && at < units.length - 1) {
    count /= 1000;
    at += 1;
  }
  return `${figure(count)} ${units[at]}`;
}

/** The name of a run; of one without a name, the last part of its place. */
export function nameOf(name: string | undefined, key: string): string {
  return name || key.split("/").at(-1) || key;
}

export function plural(count: number, what: string): string {
  const many = /[^aeiou]y$/.test(what) ? `${what.slice(0, -1)}ies` : `${what}${/(s|ch)$/.test(what) ? "es" : "s"}`;
  return `${count.toLocaleString("en-US")} ${count === 1 ? what : many}`;
}
