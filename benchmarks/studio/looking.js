// What the benchmark sees of a page. Loaded before the page's own scripts.
window.bench = {
  tasks: [],
  /** Resolve with the milliseconds since the navigation when a test is true, looked at in every frame; fail after a time. */
  until(test, longestMs = 60_000) {
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
  /** Whether a line is drawn on a canvas. Reads one column of pixels: this is asked in every frame, and must not cost more than the page. */
  ink(canvas) {
    if (!canvas?.width) return false;
    const { data } = canvas.getContext("2d").getImageData(Math.round(canvas.width * 0.6), 0, 1, canvas.height - 40);
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] > 100 && Math.max(data[at], data[at + 1], data[at + 2]) - Math.min(data[at], data[at + 1], data[at + 2]) > 30) return true;
    }
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
  /**
   * Columns of the highest pixel in the color of the line, and of the first in that of marks; width of the plot. The translucent
   * band of a mark over a grid line has a third color.
   */
  spikeAndMark() {
    const figure = document.querySelector("main figure"), canvas = figure.querySelector("canvas"), { width, height } = canvas;
    const numbers = (text) => text.match(/\d+/g).slice(0, 3).map(Number);
    const line = numbers(getComputedStyle(figure.querySelector("li line")).stroke);
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = "var(--breaking)";
    const bad = numbers(getComputedStyle(probe).color);
    probe.remove();
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const first = (color) => {
      for (let y = 0; y < height; y++) {
        for (let x = 54 * devicePixelRatio; x < width; x++) {
          const at = 4 * (y * width + x);
          if (data[at + 3] > 150 && color.every((part, place) => Math.abs(data[at + place] - part) < 40)) return x;
        }
      }
      return null;
    };
    return [first(line), first(bad), width - 66 * devicePixelRatio];
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
