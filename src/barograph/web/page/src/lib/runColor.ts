/** The palette of runs. The usual color of a run comes from its place, so that it is the same after every restart. */

const HUES = 20;
/** Lightness and chroma in OKLCH of the three tones, at least 3:1 against the ground. */
const LIGHT = [[0.52, 0.16], [0.38, 0.12], [0.63, 0.14]] as const;
const DARK = [[0.72, 0.15], [0.57, 0.16], [0.86, 0.11]] as const;

/** FNV-1a, mixed again so that similar names get different colors. */
function hash(text: string): number {
  let found = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) found = Math.imul(found ^ text.charCodeAt(at), 0x01000193);
  found = Math.imul(found ^ (found >>> 15), 0x2c1b3c6d);
  return (found ^ (found >>> 13)) >>> 0;
}

/** Return a color of OKLCH as #rrggbb; chroma that a screen cannot show is reduced (Ottosson, "A perceptual color space", 2020). */
function hex(lightness: number, chroma: number, hue: number): string {
  const angle = (hue * Math.PI) / 180, a = chroma * Math.cos(angle), b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3, m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3, s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s, -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s];
  if (linear.some((value) => value < -1e-4 || value > 1.0001)) return hex(lightness, chroma * 0.96, hue);
  const part = (value: number) => Math.round(255 * Math.min(1, Math.max(0, value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055)));
  return `#${linear.map((value) => part(value).toString(16).padStart(2, "0")).join("")}`;
}

const palette = (tones: typeof LIGHT | typeof DARK) => tones.flatMap(([lightness, chroma]) => Array.from({ length: HUES }, (_, at) => hex(lightness, chroma, (at * 360) / HUES + 15)));
const light = palette(LIGHT), dark = palette(DARK);

/** Return colors that are easy to tell apart, for a user to choose from and for the values of a column. */
export const choices = (isDark: boolean): readonly string[] => [0, 10, 3, 14, 6, 17, 8, 1, 12, 4, 15, 9].map((at) => (isDark ? dark : light)[at]!);

/** Number of colors. */
export const COUNT = HUES * LIGHT.length;
export const colorAt = (place: number, isDark: boolean): string => (isDark ? dark : light)[place]!;
/** Return the place of the usual color of a run; `key` is its key, such as 0/digits/first. */
export const usualPlace = (key: string): number => hash(key.replace(/^\d+\//, "")) % COUNT;
/** Return the place of a color in the palette; -1 if it is another color. */
export const placeOf = (color: string): number => (light.includes(color) ? light.indexOf(color) : dark.indexOf(color));

/** Return how different two colors of the palette look: steps of hue, one more for another tone. */
function distance(one: number, other: number): number {
  const hues = Math.abs((one % HUES) - (other % HUES));
  return Math.min(hues, HUES - hues) + (Math.floor(one / HUES) === Math.floor(other / HUES) ? 0 : 1);
}

/** Return the free color that looks least like those taken; `place` if none is free. */
export function freePlace(taken: ReadonlySet<number>, place: number): number {
  let found = place, most = 0;
  for (let at = 0; at < COUNT; at++) {
    const least = Math.min(...[...taken].map((other) => distance(at, other)));
    if (least > most) [found, most] = [at, least];
  }
  return found;
}
