/** Whether the page still waits for something that it has not shown before. */
const QUIET_MS = 300;
let waiting = 0, timer: ReturnType<typeof setTimeout> | undefined;

export const busy = $state({ now: true });

/** Slow questions about what is less urgent, see `afterOthers`. */
const patient: (() => void)[] = [];
const PAUSE_MS = 40;

/** Count a question until the returned function is called. */
export function waits(): () => void {
  waiting += 1;
  clearTimeout(timer);
  busy.now = true;
  return () => {
    waiting -= 1;
    if (!waiting) rest();
  };
}

/** Wait until no other question is under way, and take turns with others that wait for that. */
export function afterOthers(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    patient.push(resolve);
    signal.addEventListener("abort", () => {
      const at = patient.indexOf(resolve);
      if (at >= 0) patient.splice(at, 1);
      resolve();
    });
    busy.now = true;
    if (!waiting) rest();
  });
}

function rest(): void {
  clearTimeout(timer);
  // An answer often leads to the next question.
  timer = setTimeout(() => {
    const next = patient.shift();
    if (!next) busy.now = false;
    else {
      next();
      if (!waiting) rest();
    }
  }, patient.length ? PAUSE_MS : QUIET_MS);
}
