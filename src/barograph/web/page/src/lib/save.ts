/** Saves the page that is shown as one HTML file that works without a server. */
import { forget, get, shownAnswers } from "./api";
import { address } from "./route.svelte";
import { packed } from "./source";

let shown = "";
/** To be called when the address changes. */
export function pageIs(page: string, path: string): void {
  if (`${page}/${path}` !== shown) forget();
  shown = `${page}/${path}`;
}

/** Save the page as a file; return its name. */
export async function save(): Promise<string> {
  const { page, path, query } = address.now;
  const runs = page === "run" ? [path] : page === "compare" ? query.getAll("run") : [];
  const template = await (await fetch("offline.html")).text();
  const studies = page === "study" ? [path] : [];
  const parts = runs.length + studies.length ? await get<Record<string, unknown>>("answers", { run: runs, study: studies }) : {};
  const data = { start: location.hash || "#/now", saved_unix: Date.now() / 1000, answers: { ...parts, ...shownAnswers() } };
  const text = await packed(JSON.stringify(data));
  const place = document.createElement("a"), name = `${(path.split("/").at(-1) || page).replace(/[^\p{L}\p{N}_.-]+/gu, "-")}.html`;
  place.href = URL.createObjectURL(new Blob([template.replace("@@ANSWERS@@", () => text)], { type: "text/html" }));
  place.download = name;
  place.click();
  URL.revokeObjectURL(place.href);
  return name;
}
