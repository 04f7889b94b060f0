/** The address of the page: everything that a view shows is in it, so that a link shows the same. */

type Route = { page: string; path: string; query: URLSearchParams };

/** The part of the address that `read` read last. */
let known = "";

function read(): Route {
  known = location.hash;
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...rest] = path.split("/");
  return { page: page || "now", path: rest.map(decodeURIComponent).join("/"), query: new URLSearchParams(query) };
}

export const address = $state({ now: read() });

addEventListener("hashchange", () => {
  if (location.hash !== known) address.now = read();
});

/** Begin at an address, unless the page was opened at one. */
export function startAt(hash: string): void {
  if (location.hash) return;
  history.replaceState(null, "", hash);
  address.now = read();
}

/** Return the link to a page. */
export function link(page: string, path = "", query: Record<string, string | number | undefined> = {}): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") asked.set(name, String(value));
  const below = path ? `/${path.split("/").map(encodeURIComponent).join("/")}` : "";
  return `#/${page}${below}${asked.size ? `?${asked}` : ""}`;
}

/** Change what the current view shows; `replace` leaves no entry in the history. */
export function change(query: Record<string, string | number | undefined>, replace = false): void {
  const asked = new URLSearchParams(address.now.query);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") asked.delete(name);
    else asked.set(name, String(value));
  }
  const [path = ""] = location.hash.split("?", 1);
  const hash = `${path || "#/"}${asked.size ? `?${asked}` : ""}`;
  if (replace) history.replaceState(null, "", hash);
  else location.hash = hash;
  address.now = read(); // at once: the event comes later, and another change may come before it
}
