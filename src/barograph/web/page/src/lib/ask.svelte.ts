import { untrack } from "svelte";
import { Failed, get, isRetried, RETRY_MS, type Query } from "./api";
import { afterOthers } from "./busy.svelte";
import { onChange } from "./changes";
import { savedMs } from "./source";

/** The answer to a question that may change: what is known, what failed, and whether more is on its way. */
export class Asked<T> {
  data = $state.raw<T | undefined>(undefined);
  failure = $state<string>("");
  status = $state<number>(200);
  loading = $state(false);
}

/**
 * Ask the server now, whenever the question changes, and while `everyMs` is not 0: when its runs or its study change, and every
 * `everyMs` milliseconds. `later`: the question is slow and not urgent, and waits for the others of the page.
 * To be called while a component is set up.
 */
export function ask<T>(question: () => { name: string; query?: Query; everyMs?: number; later?: boolean } | undefined): Asked<T> {
  const asked = new Asked<T>();
  let last = "";
  // A text, so that the same question is not asked again when the address changes in another part.
  const text = $derived(JSON.stringify(question() ?? null));
  $effect(() => {
    const now = JSON.parse(text) as ReturnType<typeof question> | null;
    if (!now) return;
    const { name, query = {}, everyMs = 0, later = false } = now;
    const aborting = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const same = JSON.stringify([name, query]);
    if (same !== last) {
      asked.data = undefined;
      asked.failure = "";
    }
    last = same;
    let busy = false, again = false, began = 0, tookMs = 0;
    const once = async (): Promise<void> => {
      clearTimeout(timer);
      asked.loading = busy = true;
      again = false; // it changed while it was asked for
      began = performance.now();
      let pauseMs = everyMs;
      try {
        const data = await get<T>(name, query, aborting.signal);
        if (data !== asked.data) asked.data = data;
        asked.failure = "";
        asked.status = 200;
      } catch (error) {
        if (aborting.signal.aborted) return;
        asked.failure = error instanceof Error ? error.message : String(error);
        asked.status = error instanceof Failed ? error.status : 0;
        if (isRetried(error)) pauseMs ||= RETRY_MS;
      } finally {
        busy = false;
        tookMs = performance.now() - began;
        if (!aborting.signal.aborted) asked.loading = false;
      }
      if (!pauseMs || savedMs !== null || aborting.signal.aborted) return;
      if (again) soon();
      else timer = setTimeout(() => void once(), document.hidden ? pauseMs * 5 : pauseMs);
    };
    /** At once after a pause, and never more than a third of the time. */
    const soon = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => void once(), Math.max(0, began + Math.max(300, 3 * tookMs) - performance.now()));
    };
    const stop = everyMs ? onChange([...[query["run"] ?? []].flat().map(String), ...[query["study"] ?? []].flat().map((key) => `study/${key}`)], () => {
      again = true;
      if (!busy) soon();
    }) : undefined;
    untrack(() => void (later ? afterOthers(aborting.signal).then(() => (aborting.signal.aborted ? undefined : once())) : once()));
    return () => {
      aborting.abort();
      clearTimeout(timer);
      stop?.();
    };
  });
  return asked;
}
