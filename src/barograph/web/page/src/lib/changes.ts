/**
 * Hears on one socket that runs changed; the data is asked for as usual. Where a proxy forbids sockets, and where there is
 * no server, questions are repeated at their own pace. A browser reports each socket that fails in its console, so a socket
 * is tried only after the server has answered, and no more in this tab once two have failed while it answered.
 */
import { inNotebook, savedMs } from "./source";

const LONGEST_MS = 30_000;
const listeners = new Map<string, Set<() => void>>();
let socket: WebSocket | undefined;
/** Sockets that failed before they were open, since one was. */
const FORBIDDEN = "barograph-no-sockets", MOST_FAILED = 2;
let waitMs = 1000, planned = false, sent = "", failed = kept() ? MOST_FAILED : 0, answered = false, waiting = false;

function kept(now = false): boolean {
  try {
    if (now) sessionStorage.setItem(FORBIDDEN, "1");
    return sessionStorage.getItem(FORBIDDEN) !== null;
  } catch {
    return false; // a frame without storage of its own
  }
}

/** Note that the server has answered: a socket may open, too. */
export function reached(): void {
  if (answered) return;
  answered = true;
  plan();
}

/** Call `hear` when one of these runs changes; return how to stop that. */
export function onChange(runs: readonly string[], hear: () => void): () => void {
  if (!runs.length || savedMs !== null || inNotebook) return () => undefined;
  for (const run of runs) listeners.set(run, (listeners.get(run) ?? new Set()).add(hear));
  plan();
  return () => {
    for (const run of runs) {
      listeners.get(run)?.delete(hear);
      if (!listeners.get(run)?.size) listeners.delete(run);
    }
    plan();
  };
}

/** Once for all that subscribe together. */
function plan(): void {
  if (planned) return;
  planned = true;
  queueMicrotask(() => {
    planned = false;
    const runs = JSON.stringify([...listeners.keys()]);
    if (socket?.readyState === WebSocket.OPEN) {
      if (runs !== sent) socket.send(sent = runs);
    } else if (!socket && listeners.size && answered && !waiting && failed < MOST_FAILED) connect();
  });
}

function connect(): void {
  const url = new URL("api/changes", document.baseURI);
  url.protocol = url.protocol.replace("http", "ws");
  url.hash = "";
  socket = new WebSocket(url);
  let opened = false;
  socket.onopen = () => {
    opened = true;
    failed = 0;
    waitMs = 1000;
    sent = ""; // the server announces all runs then: something may have happened without it
    plan();
  };
  socket.onmessage = ({ data }: MessageEvent<string>) => {
    if (!document.hidden) tell(Object.keys(JSON.parse(data) as Record<string, string>));
  };
  socket.onclose = () => {
    socket = undefined;
    answered = false; // perhaps the server is gone
    waiting = true;
    if (!opened && ++failed >= MOST_FAILED) kept(true);
    setTimeout(() => {
      waiting = false;
      plan();
    }, waitMs);
    waitMs = Math.min(waitMs * 2, LONGEST_MS);
  };
}

function tell(runs: readonly string[]): void {
  for (const hear of new Set(runs.flatMap((run) => [...(listeners.get(run) ?? [])]))) hear();
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) tell([...listeners.keys()]);
});
