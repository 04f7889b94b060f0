/** Where answers come from: the server; a file that has them inside; or the kernel of a notebook, through the page around this one. */

export type Reply = { status: number; version: string; text: string };
type Source = (url: string, version: string, signal?: AbortSignal) => Promise<Reply>;
type Saved = { start: string; saved_unix: number; answers: Record<string, unknown> };

declare global {
  interface Window {
    /** Answers on their way by URL, which `early.js` asked for. */
    barographEarly?: Map<string, Promise<Response>>;
  }
}
/** An early answer is not for a page that is opened later. */
const EARLY_MS = 10_000;

let answers: Saved["answers"] = {};
let source: Source = async (url, version, signal) => {
  const response = await (early(url) ?? fetch(url, { ...(signal ? { signal } : {}), headers: version ? { "if-none-match": version } : {}, cache: "no-store" }));
  signal?.throwIfAborted();
  return { status: response.status, version: response.headers.get("etag") ?? "", text: response.status === 304 ? "" : await response.text() };
};

/** When this file was saved, in milliseconds since 1970; null if the page is served. */
export let savedMs: number | null = null;
/** Whether the page is shown in a notebook. */
export let inNotebook = false;

/** Whether there are no other pages to link to: the page is shown in a file or a notebook. */
export let isAlone = false;

/** Ask for the answer at a URL. `version`: what the page has already; then the answer may be status 304 without a text. */
export const reply: Source = (url, version, signal) => source(url, version, signal);

/** Return the answer that is on its way since before this script was there, once. */
function early(url: string): Promise<Response> | undefined {
  const found = window.barographEarly?.get(url);
  window.barographEarly?.delete(url);
  return performance.now() < EARLY_MS ? found : undefined;
}

/** Find out where answers come from; return the address at which the page starts, "" if that is open. */
export async function begin(): Promise<string> {
  const inside = document.getElementById("answers")?.textContent?.trim();
  if (!inside) return "";
  const saved = JSON.parse(await unpacked(inside)) as Saved;
  isAlone = true;
  if (document.documentElement.dataset.source === "notebook") {
    inNotebook = true;
    source = askParent;
  } else {
    savedMs = saved.saved_unix * 1000;
    answers = saved.answers;
    source = async (url) => find(url);
  }
  return saved.start;
}

async function unpacked(text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** Return text as gzip in base64, as a saved file contains it. */
export async function packed(text: string): Promise<string> {
  const bytes = new Uint8Array(await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer());
  let letters = "";
  for (let at = 0; at < bytes.length; at += 0x8000) letters += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(letters);
}

let asked = 0;
function askParent(url: string, version: string, signal?: AbortSignal): Promise<Reply> {
  const id = ++asked;
  return new Promise((resolve, reject) => {
    const end = (): void => {
      removeEventListener("message", hear);
      signal?.removeEventListener("abort", abort);
    };
    const abort = (): void => {
      end();
      reject(new DOMException("aborted", "AbortError"));
    };
    const hear = (event: MessageEvent<Partial<Reply> & { id?: number }>): void => {
      if (event.source !== parent || event.data?.id !== id) return;
      end();
      resolve({ status: event.data.status ?? 0, version: event.data.version ?? "", text: event.data.text ?? "" });
    };
    addEventListener("message", hear);
    signal?.addEventListener("abort", abort);
    parent.postMessage({ id, url, version }, "*");
  });
}

/** Parameters that choose a part of an answer, or how it is drawn: the saved one has all of it, or the part that was shown. */
const PARTIAL = new Set(["points", "from", "to", "limit", "offset", "step", "smooth", "logx"]);
const CHOOSING: Record<string, readonly string[]> = { charts: ["search", "pin"] };
type Asked = { name: string; query: URLSearchParams };
type Drawn = { name: string; steps: number[]; times?: number[]; positions?: number[]; values: unknown[] };
type Lines = { lines: Drawn[]; missing: string[] };
type Charts = { count: number; charts: { title: string; names: string[] }[]; pinned: number };

const parsed = (url: string): Asked => ({ name: url.replace(/^api\//, "").split("?", 1)[0]!, query: new URLSearchParams(url.split("?")[1] ?? "") });
const whole = ({ name, query }: Asked): string => JSON.stringify([name, [...query]
  .filter(([part, value]) => value && !PARTIAL.has(part) && !CHOOSING[name]?.includes(part)).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))]);

function find(url: string): Reply {
  const asked = parsed(url), same = whole(asked), exact = answers[url];
  let best: unknown, distance = Infinity;
  for (const [other, data] of exact === undefined ? Object.entries(answers) : []) {
    const candidate = parsed(other);
    if (whole(candidate) !== same) continue;
    const far = [...PARTIAL].reduce((sum, part) => sum + Math.abs(Number(asked.query.get(part) ?? 0) - Number(candidate.query.get(part) ?? 0)), 0);
    if (far < distance) [best, distance] = [data, far];
  }
  if (asked.name === "lines" || asked.name === "curves") best ??= composed(asked);
  const text = JSON.stringify(exact ?? chosen(within(best, asked.query), asked));
  if (text === undefined) return { status: 404, version: "", text: JSON.stringify({ error: "This file does not contain this part of the page." }) };
  return { status: 200, version: same, text };
}

/** Compose the lines of a chart from the lines of all saved charts. */
function composed({ name, query }: Asked): unknown {
  if (query.has("x")) return undefined; // the saved lines are over the steps
  const lines = new Map<string, Drawn>();
  for (const [url, data] of Object.entries(answers)) {
    const { name: other, query: saved } = parsed(url), runs = saved.getAll("run");
    if (other !== name || saved.has("x")) continue;
    (runs.length === 1 ? [data] : (data as unknown[])).forEach((found, at) => {
      for (const line of (found as Lines).lines ?? (found as Drawn[])) lines.set(`${runs[at]}\n${line.name}`, line);
    });
  }
  const names = query.getAll("name");
  const found = query.getAll("run").map((run) => {
    const mine = names.flatMap((one) => lines.get(`${run}\n${one}`) ?? []);
    return name === "curves" ? mine : { lines: mine, missing: names.filter((one) => !lines.has(`${run}\n${one}`)) };
  });
  return lines.size ? (found.length === 1 ? found[0] : found) : undefined;
}

/** Leave out the points of lines before `from` and after `to`. */
function within(data: unknown, query: URLSearchParams): unknown {
  if (!query.has("from") || !data) return data;
  if (Array.isArray(data)) return data.map((item: unknown) => within(item, query));
  if ((data as Lines).lines) return { ...data, lines: (data as Lines).lines.map((line) => within(line, query)) };
  const line = data as Drawn, from = Number(query.get("from")), to = Number(query.get("to") || Infinity);
  if (!line.steps) return data;
  const kept = line.steps.flatMap((step, at) => (step >= from && step <= to ? [at] : []));
  const only = <T>(list: T[] | undefined): T[] | undefined => list && (list.length ? kept.map((at) => list[at]!) : list);
  return { ...line, count: kept.length, steps: only(line.steps), times: only(line.times), positions: only(line.positions), values: only(line.values) };
}

/** Choose the charts that a search names, pinned ones first. */
function chosen(data: unknown, { name, query }: Asked): unknown {
  if (name !== "charts" || !data) return data;
  if (Array.isArray(data)) return data.map((item: unknown) => chosen(item, { name, query }));
  const pattern = new RegExp(query.get("search") ?? "", "i"), pinned = query.getAll("pin");
  const charts = (data as Charts).charts.filter((chart) => chart.names.some((one) => pattern.test(one)));
  const first = charts.filter(({ title }) => pinned.includes(title));
  return { count: charts.length, charts: [...first, ...charts.filter((chart) => !first.includes(chart))], pinned: first.length };
}
