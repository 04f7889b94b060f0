import uPlot from "uplot";
import { logTicks, STEP_TICKS, TIME_TICKS, span, ticksIn, type Unit } from "./units";
import type { Span } from "./series";

/** A uPlot that is made once, and given other data, ranges and marks without being made again. */

export type Stroke = { color: string; width: number; dash?: readonly number[]; points?: boolean };
/** Series, counted from 1, between which an area is filled. */
type Area = { between: [number, number]; color: string };
export type Now = { xs: Span; ys: Span; broken: Span[]; zoomed: boolean };
type Calls = { hover: (x: number | null, left: number, top: number) => void; zoom: (range: Span | undefined) => void };
type Style = { width: number; height: number; logX: boolean; logY: boolean; time: boolean; steps: boolean; unit: Unit; strokes: Stroke[]; areas?: Area[] };

export function plotIn(box: HTMLElement, style: Style, data: uPlot.AlignedData, now: Now, calls: Calls): uPlot {
  const css = getComputedStyle(document.documentElement);
  const ink = css.getPropertyValue("--faint"), grid = css.getPropertyValue("--line"), bad = css.getPropertyValue("--breaking");
  const log: uPlot.Axis = { splits: (_plot, _axis, low, high) => logTicks(low, high), filter: fewOf };
  const axis: uPlot.Axis = { stroke: ink, grid: { stroke: grid, width: 1 }, font: "11px system-ui, sans-serif" };
  const plot = new uPlot({
    width: style.width, height: style.height, padding: [8, 12, 0, 0],
    scales: {
      x: { time: false, distr: style.logX ? 4 : 1, asinh: 1, range: () => now.xs },
      y: { distr: style.logY ? 3 : 1, range: () => now.ys },
    },
    axes: [
      { ...axis, ticks: { stroke: grid, width: 1, size: 4 }, size: 26, space: 60, ...(style.time ? { incrs: TIME_TICKS } : style.steps && !style.logX ? { incrs: STEP_TICKS } : {}),
        values: (_, ticks) => (style.time ? ticks.map((tick) => (tick === null ? "" : span(tick))) : ticksIn(ticks, "", style.logX)), ...(style.logX ? log : {}) },
      { ...axis, ticks: { show: false }, size: 54, space: 28, values: (_, ticks) => ticksIn(ticks, style.unit, style.logY), ...(style.logY ? log : {}) },
    ],
    series: [{}, ...style.strokes.map(({ color, width, dash, points }): uPlot.Series => ({
      stroke: color, width, points: { show: Boolean(points), size: 4, fill: color }, spanGaps: false, ...(dash?.length ? { dash: [...dash] } : {}),
    }))],
    bands: (style.areas ?? []).map(({ between, color }) => ({ series: between, fill: color })),
    legend: { show: false },
    focus: { alpha: 0.25 },
    cursor: { drag: { x: true, y: false, setScale: false, dist: 4 }, points: { size: 6 }, y: false, focus: { prox: style.strokes.length > 2 && !style.areas?.length ? 24 : -1 } },
    hooks: {
      setCursor: [(made) => {
        if (!made.cursor.event) return; // moved by us, with the cursor of another panel
        const left = made.cursor.left ?? -1;
        calls.hover(left < 0 ? null : made.posToVal(left, "x"), left, made.cursor.top ?? 0);
      }],
      setSelect: [(made) => {
        const { left, width } = made.select;
        if (width <= 4) return;
        made.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        calls.zoom([made.posToVal(left, "x"), made.posToVal(left + width, "x")]);
      }],
      draw: [(made) => drawBroken(made, now.broken, bad)],
    },
  }, data, box);
  listen(plot, now, calls);
  return plot;
}

/** Of the ticks of a log axis the powers of ten, and if there are few, 2 and 5 times these. */
function fewOf(_: uPlot, ticks: number[]): (number | null)[] {
  const lead = (tick: number) => Number(Math.abs(tick).toExponential(0)[0]);
  const powers = ticks.filter((tick) => tick !== 0 && lead(tick) === 1).length;
  return ticks.map((tick) => (tick === 0 || lead(tick) === 1 || (powers < 4 && (lead(tick) === 2 || lead(tick) === 5)) ? tick : null));
}

/**
 * NaN and infinities: a red band over the whole height, with a mark at the top that is wide enough to be seen. Marks that
 * would overlap are one bar at the top, with a faint band below, so that other lines stay readable.
 */
function drawBroken(plot: uPlot, broken: Span[], color: string): void {
  const { ctx, bbox } = plot, ratio = devicePixelRatio || 1, mark = 5 * ratio;
  const parts: { from: number; to: number; isMany: boolean }[] = [];
  for (const [first, last] of broken.toSorted((one, other) => one[0] - other[0])) {
    const from = plot.valToPos(first, "x", true), to = plot.valToPos(last, "x", true), before = parts.at(-1);
    if (before && from < before.to + 2 * mark) Object.assign(before, { to: Math.max(before.to, to), isMany: true });
    else parts.push({ from, to, isMany: to - from > 2 * mark });
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = color;
  for (const { from, to, isMany } of parts) {
    ctx.globalAlpha = isMany ? 0.1 : 0.3;
    ctx.fillRect(from - ratio, bbox.top, Math.max(2 * ratio, to - from), bbox.height);
    ctx.globalAlpha = 1;
    if (isMany) ctx.fillRect(from - mark, bbox.top, to - from + 2 * mark, mark);
    const middle = isMany ? from : (from + Math.max(from, to)) / 2;
    ctx.beginPath();
    ctx.moveTo(middle - mark, bbox.top);
    ctx.lineTo(middle + mark, bbox.top);
    ctx.lineTo(middle, bbox.top + 7 * ratio);
    ctx.fill();
  }
  ctx.restore();
}

/** Shift and drag moves the part that is shown; a double click shows everything. */
function listen(plot: uPlot, now: Now, calls: Calls): void {
  let pressed: { at: number; xs: Span; moves: boolean } | undefined;
  plot.over.addEventListener("mousedown", (event) => {
    pressed = { at: event.clientX, xs: [...now.xs], moves: event.shiftKey && now.zoomed };
    if (pressed.moves) event.stopImmediatePropagation();
  }, true);
  plot.over.addEventListener("mousemove", (event) => {
    if (!pressed?.moves || !(event.buttons & 1)) return;
    const by = ((pressed.at - event.clientX) / plot.over.clientWidth) * (pressed.xs[1] - pressed.xs[0]);
    now.xs = [pressed.xs[0] + by, pressed.xs[1] + by];
    plot.setScale("x", { min: now.xs[0], max: now.xs[1] });
  });
  plot.over.addEventListener("mouseup", () => {
    if (pressed?.moves && now.xs[0] !== pressed.xs[0]) calls.zoom(now.xs);
    pressed = undefined;
  });
  plot.over.addEventListener("dblclick", () => calls.zoom(undefined));
}
