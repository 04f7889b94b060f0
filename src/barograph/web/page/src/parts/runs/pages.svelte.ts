import { untrack } from "svelte";
import { get, type Query } from "../../lib/api";
import { learn } from "../../lib/chosenColors.svelte";
import type { ListedRun, RunPage } from "./types";

const PAGE = 200;
/** Pause while the list grows because its runs are being indexed. */
const INDEXING_MS = 1000;

/** The rows of a list, asked for a page at a time: those in view, and those of other pages as long as the question is the same. */
export class Pages {
  found = $state.raw(new Map<number, RunPage>());
  failure = $state("");
  isAsking = $state(false);
  first = $derived(this.found.get(0) ?? [...this.found.values()][0]);

  row(at: number): ListedRun | undefined {
    return this.found.get(Math.floor(at / PAGE))?.rows[at % PAGE];
  }
}

/** Ask for the pages from row `from` to row `to`. To be called while a component is set up. */
export function pagesOf(question: () => Query, range: () => [from: number, to: number], everyMs: number): Pages {
  const pages = new Pages();
  let last = "", tick = $state(0);
  // Texts, so that the same pages and the same question are no change.
  const asked = $derived(JSON.stringify(question()));
  const wanted = $derived.by(() => {
    const [from, to] = range(), found = new Set([0]);
    for (let page = Math.floor(from / PAGE); page <= Math.floor(Math.max(from, to - 1) / PAGE); page++) found.add(page);
    return [...found].join(" ");
  });
  const pauseMs = $derived((pages.first?.indexing.total ?? 0) > (pages.first?.count ?? 0) ? INDEXING_MS : everyMs);
  $effect(() => {
    const timer = setInterval(() => (tick += document.hidden ? 0 : 1), pauseMs);
    return () => clearInterval(timer);
  });
  $effect(() => {
    void tick;
    const aborting = new AbortController(), key = asked, query = JSON.parse(key) as Query, numbers = wanted.split(" ").map(Number);
    const isNew = key !== last;
    const kept = untrack(() => pages.found);
    // Rows that are in view already are not asked for again while somebody scrolls.
    const missing = isNew || numbers.every((number) => kept.has(number)) ? numbers : numbers.filter((number) => !kept.has(number));
    async function load(): Promise<void> {
      pages.isAsking = true;
      try {
        const answers = await Promise.all(missing.map(async (page) => [page, await get<RunPage>("search", { ...query, limit: PAGE, offset: page * PAGE }, aborting.signal)] as const));
        for (const [, page] of answers) for (const run of page.rows) learn(run.key, run.color);
        pages.found = new Map([...(isNew ? [] : numbers.flatMap((number) => (kept.has(number) ? [[number, kept.get(number)!] as const] : []))), ...answers]);
        pages.failure = "";
        last = key;
      } catch (error) {
        if (!aborting.signal.aborted) pages.failure = error instanceof Error ? error.message : String(error);
      } finally {
        if (!aborting.signal.aborted) pages.isAsking = false;
      }
    }
    void load();
    return () => aborting.abort();
  });
  return pages;
}
