/** Shows the page in a notebook: a frame around it, and its questions sent to the kernel. For anywidget. */
import type { Reply } from "./lib/source";

type Asked = { id: number; url: string; version: string };
type Answer = Reply & { url: string };
type Model = {
  get(name: "page"): string;
  on(event: "msg:custom", hear: (answer: Answer) => void): void;
  off(event: "msg:custom", hear: (answer: Answer) => void): void;
  send(asked: Omit<Asked, "id">): void;
};

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const frame = document.createElement("iframe"), theme = isDark(el) ? "dark" : "light";
  const page = model.get("page").replace("data-source=", `data-system="${theme}" data-source=`);
  frame.title = "Barograph";
  frame.style.cssText = "width: 100%; height: 640px; border: 1px solid #8884; border-radius: 6px";
  frame.src = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  // A kernel that runs a cell answers late, but sends what changed: the last answers are kept for whoever asks.
  const known = new Map<string, Answer>(), waiting = new Map<string, number[]>();
  const give = (ids: readonly number[], answer: Answer): void => {
    for (const id of ids) frame.contentWindow?.postMessage({ ...answer, id }, "*");
  };
  const asked = ({ source, data }: MessageEvent<Asked>): void => {
    if (source !== frame.contentWindow) return;
    const { id, url, version } = data, before = known.get(url);
    if (before && before.version !== version) give([id], before);
    else waiting.set(url, [...(waiting.get(url) ?? []), id]);
    model.send({ url, version: before?.version ?? "" });
  };
  const answered = (answer: Answer): void => {
    const before = known.get(answer.url), ids = waiting.get(answer.url) ?? [];
    if (answer.status === 200) known.set(answer.url, answer);
    waiting.delete(answer.url);
    give(ids, answer.status === 304 && before ? { ...before, status: 200 } : answer);
  };
  addEventListener("message", asked);
  model.on("msg:custom", answered);
  el.replaceChildren(frame);
  return () => {
    removeEventListener("message", asked);
    model.off("msg:custom", answered);
    URL.revokeObjectURL(frame.src);
  };
}

/** A notebook has a theme of its own, which the system does not know. */
function isDark(el: HTMLElement): boolean {
  for (let at: HTMLElement | null = el; at; at = at.parentElement) {
    const [red = 0, green = 0, blue = 0, alpha = 1] = (getComputedStyle(at).backgroundColor.match(/[\d.]+/g) ?? []).map(Number);
    if (alpha > 0) return 0.3 * red + 0.6 * green + 0.1 * blue < 110;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

export default { render };
