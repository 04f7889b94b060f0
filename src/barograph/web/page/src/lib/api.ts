import { session } from "./session.svelte";

/** Answers of the server. An answer that did not change travels as its version alone. */

export class Failed extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

const known = new Map<string, { version: string; data: unknown }>();
const MOST_KNOWN = 400;

export type Query = Record<string, string | number | undefined | readonly string[]>;

export function urlOf(name: string, query: Query = {}): string {
  const asked = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined) continue;
    if (typeof value === "object") for (const one of value) asked.append(key, one);
    else asked.set(key, String(value));
  }
  return `api/${name}${asked.size ? `?${asked}` : ""}`;
}

export async function get<T>(name: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const url = urlOf(name, query);
  const before = known.get(url);
  let response: Response;
  try {
    response = await fetch(url, { signal, headers: before ? { "if-none-match": before.version } : {}, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failed("The server does not answer. Is `barograph studio` still running?", 0);
  }
  if (response.status === 304 && before) return before.data as T;
  const text = await response.text();
  if (response.status === 401) session.needsToken = true;
  if (!response.ok) throw new Failed(messageOf(text), response.status);
  const data = JSON.parse(text) as T;
  known.set(url, { version: response.headers.get("etag") ?? "", data });
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value!);
  return data;
}

function messageOf(text: string): string {
  try {
    return String((JSON.parse(text) as { error?: string }).error ?? text);
  } catch {
    return text || "The server failed.";
  }
}
