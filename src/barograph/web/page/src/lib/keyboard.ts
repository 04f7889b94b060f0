/** Keys that work on every page. */
import { cursor } from "./cursor.svelte";
import { address, link } from "./route.svelte";

export const SHORTCUTS: readonly (readonly [string, string])[] = [
  ["Ctrl K", "Search pages, runs, metrics and actions"],
  ["/", "Go to the search field of the page"],
  ["j  k", "Next and previous run, study or trial in a list"],
  ["Enter", "Open"],
  ["x", "Select the run for comparison"],
  ["←  →", "Move the step cursor; with Shift, ten steps"],
  ["Esc", "Leave the step cursor, or close"],
  ["g n", "Go to Now"],
  ["g r", "Go to Runs"],
  ["g s", "Go to Studies"],
  ["g j", "Go to Jobs"],
  ["?", "Show these keys"],
];

const PAGES: Record<string, string> = { n: "now", r: "runs", s: "studies", j: "jobs" };
type Opens = { palette: () => void; help: () => void };
let before = ""; // the key before, for "g n"

/** Handle a key that nobody else has handled. */
export function onKey(event: KeyboardEvent, opens: Opens): void {
  const first = before;
  before = "";
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    opens.palette();
    return;
  }
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const goes = first === "g" ? PAGES[event.key] : undefined;
  if (goes) location.hash = link(goes);
  else if (event.key === "g") before = "g";
  else if (event.key === "?") opens.help();
  else if (event.key === "/") focusSearch(event);
  else if (event.key === "j" || event.key === "k") moveRow(event, event.key === "j" ? 1 : -1);
  else if (event.key === "x") rowOf(document.activeElement)?.querySelector<HTMLInputElement>('input[type="checkbox"]')?.click();
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight") moveCursor(event, event.key === "ArrowLeft" ? -1 : 1);
  else if (event.key === "Escape") cursor.step = null;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox");
}

function focusSearch(event: KeyboardEvent): void {
  const field = [...document.querySelectorAll<HTMLInputElement>('main :is(input[type="search"], input[role="combobox"])')].find((input) => input.offsetParent);
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
}

const rowOf = (element: Element | null): HTMLElement | null => element?.closest<HTMLElement>("tr, li") ?? null;

/** Lists of runs, studies and trials are rows with a link to each. */
function moveRow(event: KeyboardEvent, by: number): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>('main :is(a[href^="#/run/"], a[href^="#/study/"])')].filter((item) => item.offsetParent);
  const rows = links.filter((item, at) => at === 0 || rowOf(item) !== rowOf(links[at - 1]!));
  if (!rows.length) return;
  const here = rowOf(document.activeElement), at = rows.findIndex((item) => here !== null && rowOf(item) === here);
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))]!;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

/** The step view moves to other steps itself, and a map moves within itself. */
function moveCursor(event: KeyboardEvent, by: number): void {
  const { page, query } = address.now;
  if ((page !== "run" && page !== "compare") || query.get("tab") === "step" || document.activeElement?.closest('canvas, [role="tab"], [role="slider"]')) return;
  const [low, high] = [Number(query.get("from") ?? 0), Number(query.get("to") ?? Infinity)];
  event.preventDefault();
  cursor.step = Math.min(high, Math.max(low, (cursor.step ?? low - by) + by * (event.shiftKey ? 10 : 1)));
}
