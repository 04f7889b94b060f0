/**
 * Asks for what the page shows first, while the browser still reads its script; `lib/source.ts` takes the answers. The addresses are
 * those that the page would ask for itself: another one is only a request too many.
 */
(() => {
  const [path = "", text = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...rest] = path.split("/"), given = new URLSearchParams(text);
  const value = (name) => given.get(name) ?? "";
  const list = (name, from = name) => value(from).split("\n").filter(Boolean).map((one) => [name, one]);
  const keep = (window.barographEarly = new Map());
  function ask(name, query = []) {
    const url = `api/${name}${query.length ? `?${new URLSearchParams(query)}` : ""}`, answer = fetch(url, { cache: "no-store" });
    answer.catch(() => undefined); // who takes it hears of it
    keep.set(url, answer);
  }
  function charts(runs) {
    let layout = null;
    try {
      layout = localStorage.getItem("barograph-charts");
    } catch { /* a frame without storage of its own */ }
    if (!layout || layout === "{}") ask("charts", [...runs, ["search", value("chart")], ...list("pin")]);
  }

  if (page === "runs" && !value("by")) {
    ask("search", [["root", String(Number(value("root") || 0))], ["q", value("q")], ...list("filter"), ["order", value("order")], ...list("column"),
      ...(value("differs") === "1" ? [["differs", "1"]] : []), ["limit", "200"], ["offset", "0"]]);
  } else if (page === "compare") {
    const runs = [...new Set(given.getAll("run"))].map((run) => ["run", run]);
    if (runs.length > 1) charts(runs);
    if (runs.length) ask("run", runs);
  } else if (page === "run") {
    const run = [["run", rest.map(decodeURIComponent).join("/")]];
    ask("run", run);
    if (value("tab") === "charts") charts(run);
  } else if (!page || page === "now") ask("now");
})();
