import { Failed, urlOf } from "../lib/api";
import { waits } from "../lib/busy.svelte";
import { reply, type Reply } from "../lib/source";
import type { RunLines } from "../lib/types";

/** Lines for charts. Charts that ask within a moment share a request, which is cancelled once none of them waits for it. */

export type Wanted = {
  runs: readonly string[]; names: readonly string[]; points: number; x?: string | undefined; from?: number | undefined;
  to?: number | undefined; logx?: boolean; smooth?: boolean; statistic?: string | undefined;
};
type Waiting = { wanted: Wanted; signal: AbortSignal; done: (found: RunLines[]) => void; failed: (error: unknown) => void };

/** More make an answer of several hundred kilobytes, and reading it a task that the page is felt to wait for. */
const MOST_LINES = 60, MOST_NAMES = 24;
const MOMENT_MS = 30;
let queue: Waiting[] = [];

export function lines(wanted: Wanted, signal: AbortSignal): Promise<RunLines[]> {
  return new Promise((done, failed) => {
    if (!queue.length) setTimeout(send, MOMENT_MS);
    queue.push({ wanted, signal, done, failed });
  });
}

function send(): void {
  const waiting = queue.filter(({ signal }) => !signal.aborted);
  queue = [];
  const alike = new Map<string, Waiting[]>();
  for (const one of waiting) {
    const kind = JSON.stringify({ ...one.wanted, names: [] });
    alike.set(kind, [...(alike.get(kind) ?? []), one]);
  }
  for (const together of alike.values()) {
    const most = Math.min(MOST_NAMES, Math.floor(MOST_LINES / together[0]!.wanted.runs.length));
    let part: Waiting[] = [], size = 0;
    for (const one of together) {
      if (part.length && size + one.wanted.names.length > most) {
        void request(part);
        part = [];
        size = 0;
      }
      part.push(one);
      size += one.wanted.names.length;
    }
    if (part.length) void request(part);
  }
}

async function request(part: Waiting[]): Promise<void> {
  const { runs, points, x, from, to, logx, smooth, statistic } = part[0]!.wanted;
  const names = [...new Set(part.flatMap(({ wanted }) => wanted.names))];
  const stopping = new AbortController();
  for (const { signal } of part) {
    signal.addEventListener("abort", () => {
      if (part.every(({ signal }) => signal.aborted)) stopping.abort();
    });
  }
  try {
    const found = await ask(urlOf("lines", { run: runs, name: names, points, x, from, to, logx: logx ? 1 : undefined, smooth: smooth ? 1 : undefined, statistic }), stopping.signal);
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
  }
}

async function ask(url: string, signal: AbortSignal): Promise<RunLines | RunLines[]> {
  const answered = waits();
  let answer: Reply;
  try {
    answer = await reply(url, "", signal);
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Failed("The server does not answer. Is `barograph studio` still running?", 0);
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
