import { session } from "./session.svelte";

/** Answers of the server. An answer that did not change travels as its version alone. */
import { waits } from "./busy.svelte";
import { reached } from "./changes";
import { inNotebook, reply, savedMs, type Reply } from "./source";

export class Failed extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

/** Whether a question that failed is asked again, and after how long: the server, or a proxy before it, did not answer or asks for it. */
export const RETRY_MS = 3000;
export const isRetried = (error: unknown): boolean => savedMs === null && error instanceof Failed && [0, 502, 503, 504].includes(error.status);

const known = new Map<string, { version: string; data: unknown }>();
const MOST_KNOWN = 400;
/** URLs that were asked for since the page was opened, see `forget`. */
let asked = new Set<string>();

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
  asked.add(url);
  const answered = before ? () => undefined : waits();
  let answer: Reply;
  try {
    answer = await reply(url, before?.version ?? "", signal);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failed(inNotebook ? "The kernel does not respond." : "The server does not respond. Is `barograph studio` still running?", 0);
  } finally {
    answered();
  }
  if (answer.status === 200 || answer.status === 304) reached();
  if (answer.status === 304 && before) return before.data as T;
  if (answer.status === 401) session.needsToken = true;
  if (answer.status !== 200) throw new Failed(messageOf(answer.text), answer.status);
  if (before?.version && before.version === answer.version) return before.data as T;
  const data = JSON.parse(answer.text) as T;
  if (name === "marks" && (inNotebook || savedMs !== null)) (data as { may_edit: boolean }).may_edit = false; // nobody takes edits
  known.delete(url); // the newest is the last
  known.set(url, { version: answer.version, data });
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value!);
  return data;
}

/** Answers that the current page shows, by URL. */
export function shownAnswers(): Record<string, unknown> {
  return Object.fromEntries([...known].filter(([url]) => asked.has(url)).map(([url, { data }]) => [url, data]));
}

/** Another page is shown: what was asked for before does not belong to it. */
export function forget(): void {
  asked = new Set();
}

function messageOf(text: string): string {
  try {
    return String((JSON.parse(text) as { error?: string }).error ?? text);
  } catch {
    return text || "The server failed.";
  }
}
