/** Drawing on a canvas in CSS pixels, sharp on dense screens. */

/** Color of exact zeros in heat maps: none of the scale. */
export const ZERO = "#c2187a";

export function penOf(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d")!;
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  return pen;
}

export const cssColor = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Hatching, for what was not recorded. */
export function hatch(pen: CanvasRenderingContext2D, color: string): CanvasPattern | string {
  const size = 6, tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const stroke = tile.getContext("2d")!;
  stroke.strokeStyle = color;
  stroke.lineWidth = 1.2;
  stroke.beginPath();
  for (const at of [-size, 0, size]) {
    stroke.moveTo(at, size);
    stroke.lineTo(at + size, 0);
  }
  stroke.stroke();
  return pen.createPattern(tile, "repeat") ?? color;
}
