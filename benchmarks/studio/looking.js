// What the benchmark sees of a page. Loaded before the page's own scripts.
window.bench = {
  tasks: [],
  /** Resolve with the milliseconds since the navigation when a test is true, looked at in every frame; fail after a time. */
  until(test, longestMs = 20_000) {
    const deadline = performance.now() + longestMs;
    return new Promise((resolve, reject) => {
      const look = () => {
        let there = false;
        try {
          there = test();
        } catch {
          there = false; // not there yet
        }
        if (there) resolve(performance.now());
        else if (performance.now() > deadline) reject(new Error(`not in ${longestMs / 1000} s: ${test}`));
        else requestAnimationFrame(look);
      };
      look();
    });
  },
  /** Whether anything is drawn on a canvas. */
  ink(canvas) {
    if (!canvas?.width) return false;
    const { width, height } = canvas, { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    for (let at = 3; at < data.length; at += 40) if (data[at]) return true;
    return false;
  },
  /** Return a number that changes with what is drawn on the first chart. */
  print() {
    const canvas = document.querySelector("main figure canvas");
    if (!canvas?.width) return 0;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let sum = 7;
    for (let at = 0; at < data.length; at += 4) sum = (sum * 31 + data[at] + data[at + 3]) % 1_000_003;
    return sum;
  },
  figures() {
    return [...document.querySelectorAll("main figure")];
  },
  isInView(item) {
    const { top, bottom } = item.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  },
  rows() {
    return [...document.querySelectorAll("main tbody a")];
  },
  firstDrawn() {
    return this.ink(document.querySelector("main figure canvas"));
  },
  allInViewDrawn() {
    const seen = this.figures().filter((figure) => this.isInView(figure));
    return seen.length > 1 && seen.every((figure) => this.ink(figure.querySelector("canvas")));
  },
  headOf(metric) {
    return [...document.querySelectorAll("main thead button")].find((head) => (head.title + head.textContent).includes(metric));
  },
  /** Scroll the list of runs to its end, as the End key does. */
  scrollToLast() {
    const box = [...document.querySelectorAll("main *")].find((item) => item.clientHeight > 100 && item.scrollHeight > 5 * item.clientHeight);
    (box ?? document.scrollingElement).scrollTo(0, 1e9);
  },
  /** Scroll down page by page until every chart was drawn; return how many were. */
  async drawnByScrolling() {
    const drawn = new Set();
    for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight * 0.8) {
      scrollTo(0, y);
      await this.until(() => this.figures().every((figure) => {
        if (!this.isInView(figure)) return true;
        const there = this.ink(figure.querySelector("canvas"));
        if (there) drawn.add(figure.getAttribute("aria-label"));
        return there;
      }));
    }
    return drawn.size;
  },
  /** Columns of the highest colored pixel that is no mark, and of the first mark of a NaN; width of the plot. */
  spikeAndMark() {
    const canvas = document.querySelector("main figure canvas"), { width, height } = canvas;
    const style = getComputedStyle(document.documentElement).getPropertyValue("--breaking").trim();
    const bad = [1, 3, 5].map((at) => parseInt(style.slice(at, at + 2), 16));
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const left = 55 * devicePixelRatio;
    let spike = null, mark = null;
    for (let y = 0; y < height && (spike === null || mark === null); y++) {
      for (let x = left; x < width; x++) {
        const [red, green, blue, alpha] = data.slice(4 * (y * width + x), 4 * (y * width + x) + 4);
        if (alpha < 200) continue;
        const isBad = Math.abs(red - bad[0]) + Math.abs(green - bad[1]) + Math.abs(blue - bad[2]) < 60;
        if (isBad) mark ??= x;
        else if (Math.max(red, green, blue) - Math.min(red, green, blue) > 40) spike ??= x;
      }
    }
    return [spike, mark, width - 62 * devicePixelRatio];
  },
  /** The greatest number of the beacon that the page shows. */
  beacon() {
    const found = document.querySelector("main")?.innerText.match(/1\d\d,?\d\d\d/g) ?? [];
    return Math.max(0, ...found.map((text) => Number(text.replace(",", ""))));
  },
  type(text) {
    const field = document.querySelector("main input[type=search]");
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  },
};
new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => window.bench.tasks.push(duration)))
  .observe({ type: "longtask", buffered: true });
