/** Whether the page still waits for something that it has not shown before. */
const QUIET_MS = 300;
let waiting = 0, timer: ReturnType<typeof setTimeout> | undefined;

export const busy = $state({ now: true });

/** Count a question until the returned function is called. */
export function waits(): () => void {
  waiting += 1;
  clearTimeout(timer);
  busy.now = true;
  return () => {
    waiting -= 1;
    // An answer often leads to the next question.
    if (!waiting) timer = setTimeout(() => (busy.now = false), QUIET_MS);
  };
}
