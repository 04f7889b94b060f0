/** The present time. It advances while the page is open, so that "5 min ago" does not stay true for ever. */
const TICK_MS = 10_000;
let ms = $state(Date.now());
setInterval(() => (ms = Date.now()), TICK_MS);

export const clock = {
  get ms() {
    return ms;
  },
};
