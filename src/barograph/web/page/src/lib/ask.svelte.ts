import { Failed, get, type Query } from "./api";
import { savedMs } from "./source";

/** The answer to a question that may change: what is known, what failed, and whether more is on its way. */
export class Asked<T> {
  data = $state.raw<T | undefined>(undefined);
  failure = $state<string>("");
  status = $state<number>(200);
  loading = $state(false);
}

/**
 * Ask the server now, whenever the question changes, and every `everyMs` milliseconds while that is not 0.
 * To be called while a component is set up.
 */
export function ask<T>(question: () => { name: string; query?: Query; everyMs?: number } | undefined): Asked<T> {
  const asked = new Asked<T>();
  let last = "";
  $effect(() => {
    const now = question();
    if (!now) return;
    const { name, query = {}, everyMs = 0 } = now;
    const aborting = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const same = JSON.stringify([name, query]);
    if (same !== last) {
      asked.data = undefined;
      asked.failure = "";
    }
    last = same;
    const once = async () => {
      asked.loading = true;
      try {
        const data = await get<T>(name, query, aborting.signal);
        if (data !== asked.data) asked.data = data;
        asked.failure = "";
        asked.status = 200;
      } catch (error) {
        if (aborting.signal.aborted) return;
        asked.failure = error instanceof Error ? error.message : String(error);
        asked.status = error instanceof Failed ? error.status : 0;
      } finally {
        asked.loading = false;
      }
      if (everyMs && savedMs === null && !aborting.signal.aborted) timer = setTimeout(() => void once(), document.hidden ? everyMs * 5 : everyMs);
    };
    void once();
    return () => {
      aborting.abort();
      clearTimeout(timer);
    };
  });
  return asked;
}
