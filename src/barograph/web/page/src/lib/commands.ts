/** What the command palette offers. */
import { get } from "./api";
import { address, link } from "./route.svelte";
import type { Run, Search, Studies } from "./types";

export type Command = { group: string; name: string; hint?: string; go: string | (() => void) };

const PAGES: readonly Command[] = [["now", "Now"], ["runs", "Runs"], ["studies", "Studies"], ["jobs", "Jobs"]].map(([page, name]) => ({ group: "Pages", name: name!, go: link(page!) }));
const MOST_RUNS = 12, MOST = 60;

/** Views of the run that is shown, as its page has them. */
function views(): Command[] {
  return [...document.querySelectorAll<HTMLElement>('main [role="tab"]')].map((tab) => ({ group: "This run", name: tab.textContent.trim(), go: () => tab.click() }));
}

/** Return the metrics of the run that is shown. */
async function metrics(signal: AbortSignal): Promise<Command[]> {
  if (address.now.page !== "run") return [];
  const run = await get<Run>("run", { run: address.now.path }, signal);
  return run.charts.map((name) => ({
    group: "Metrics", name, go: link("run", address.now.path, { tab: "charts", chart: `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$` }),
  }));
}

async function runs(text: string, signal: AbortSignal): Promise<Command[]> {
  const quoted = text.replaceAll("'", "''");
  const found = await get<Search>("search", { q: text ? `name contains '${quoted}'` : "", limit: MOST_RUNS }, signal);
  return found.rows.map((row) => ({ group: "Runs", name: String(row["name"] || row["key"]), hint: `${row["state"] ?? ""} ${row["key"] ?? ""}`.trim(), go: link("run", String(row["key"])) }));
}

async function studies(signal: AbortSignal): Promise<Command[]> {
  const found = await get<Studies>("studies", {}, signal);
  return found.studies.map((study) => ({ group: "Studies", name: study.name, hint: `${study.state} ${study.key}`, go: link("study", study.key) }));
}

/** Return the commands that match a text, all words of it in any order; what cannot be asked for is left out. */
export async function commandsFor(text: string, actions: readonly Command[], signal: AbortSignal): Promise<Command[]> {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = ({ group, name }: Command): boolean => words.every((word) => `${group} ${name}`.toLowerCase().includes(word));
  const [known, found, searched] = await Promise.all([metrics(signal), runs(text.trim(), signal), studies(signal)].map((asked) => asked.catch(() => [] as Command[])));
  return [...[...views(), ...PAGES, ...actions].filter(matches), ...found!, ...searched!.filter(matches).slice(0, MOST_RUNS), ...known!.filter(matches)].slice(0, MOST);
}
