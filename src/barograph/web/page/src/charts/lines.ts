import { Failed, urlOf } from "../lib/api";
import { waits } from "../lib/busy.svelte";
import { reply, type Reply } from "../lib/source";
import type { RunLines } from "../lib/types";

/**
 * Lines for charts. Charts that ask within a moment share a request, those in view first. A request is cancelled once none
 * of its charts waits for it.
 */

export type Wanted = {
  runs: readonly string[]; names: readonly string[]; points: number; x?: string | undefined; from?: number | undefined;
  to?: number | undefined; logx?: boolean; smooth?: boolean; statistic?: string | undefined;
};
/** Returns how far a chart is from the part of the page that is in view, in pixels. */
type Distance = () => number;
type Waiting = { wanted: Wanted; signal: AbortSignal; distance: Distance; done: (found: RunLines[]) => void; failed: (error: unknown) => void };

/**
 * For each request the server opens every run once, so charts share one as far as it stays short: parsing the answer of more
 * lines is a task that the user notices.
 */
const MOST_LINES = 240, MOST_NAMES = 24;
/** Requests for charts in view that are under way together. Others wait until there are none. */
const MOST_REQUESTS = 2;
const MOMENT_MS = 15;
let queue: Waiting[] = [];
let planned = false, underWay = 0;

export function lines(wanted: Wanted, signal: AbortSignal, distance: Distance = () => 0): Promise<RunLines[]> {
  return new Promise((done, failed) => {
    queue.push({ wanted, signal, distance, done, failed });
    plan();
  });
}

function plan(): void {
  if (planned) return;
  planned = true;
  setTimeout(send, MOMENT_MS);
}

function send(): void {
  planned = false;
  const waiting = queue.filter(({ signal }) => !signal.aborted).map((one) => ({ one, far: one.distance() })).sort((a, b) => a.far - b.far);
  while (waiting.length && underWay < (waiting[0]!.far > 0 ? 1 : MOST_REQUESTS)) {
    const first = waiting[0]!, kind = kindOf(first.one.wanted);
    const most = Math.min(MOST_NAMES, Math.floor(MOST_LINES / first.one.wanted.runs.length));
    const part: Waiting[] = [];
    let size = 0;
    for (const { one, far } of waiting) {
      if (kindOf(one.wanted) !== kind || (part.length && (size + one.wanted.names.length > most || (first.far === 0 && far > 0)))) continue;
      part.push(one);
      size += one.wanted.names.length;
    }
    waiting.splice(0, waiting.length, ...waiting.filter(({ one }) => !part.includes(one)));
    void request(part);
  }
  queue = waiting.map(({ one }) => one);
}

/** Charts that differ in their names only can share a request. */
const kindOf = (wanted: Wanted): string => JSON.stringify({ ...wanted, names: [] });

async function request(part: Waiting[]): Promise<void> {
  const { runs, points, x, from, to, logx, smooth, statistic } = part[0]!.wanted;
  const names = [...new Set(part.flatMap(({ wanted }) => wanted.names))];
  const stopping = new AbortController(), over = new AbortController();
  for (const { signal } of part) {
    // A live chart asks with one signal as long as it is near, which would keep every answer in memory.
    signal.addEventListener("abort", () => {
      if (part.every(({ signal }) => signal.aborted)) stopping.abort();
    }, { signal: over.signal });
  }
  underWay += 1;
  try {
    const found = await ask(urlOf("lines", { run: runs, name: names, points, x, from, to, logx: logx ? 1 : undefined, smooth: smooth ? 1 : undefined, statistic }), stopping.signal).finally(() => {
      underWay -= 1;
      if (queue.length) plan();
    });
    const perRun = Array.isArray(found) ? found : [found];
    for (const { wanted, signal, done } of part) {
      // Each chart is drawn in a task of its own, so that the page stays responsive.
      await new Promise((resolve) => setTimeout(resolve));
      if (signal.aborted) continue;
      const mine = new Set(wanted.names);
      done(perRun.map((run) => run.error !== undefined ? run : {
        lines: run.lines!.filter(({ name }) => mine.has(name)), missing: run.missing!.filter((name) => mine.has(name)),
      }));
    }
  } catch (error) {
    for (const { failed } of part) failed(error);
  } finally {
    over.abort();
  }
}

async function ask(url: string, signal: AbortSignal): Promise<RunLines | RunLines[]> {
  const answered = waits();
  let answer: Reply;
  try {
    answer = await reply(url, "", signal);
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Failed("The server does not respond. Is `barograph studio` still running?", 0);
  } finally {
    answered();
  }
  if (answer.status === 200) return JSON.parse(answer.text) as RunLines | RunLines[];
  let message = answer.text;
  try {
    message = (JSON.parse(answer.text) as { error?: string }).error ?? answer.text;
  } catch { /* not our answer: a proxy's, as it is */ }
  throw new Failed(message || "The server failed.", answer.status);
}
