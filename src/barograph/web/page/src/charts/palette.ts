/** Cividis, sampled: even steps of lightness, read alike with and without color blindness (Nuñez et al., 2018). */
const STOPS: readonly (readonly [number, number, number])[] = [
  [0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56],
];

/** Return the color of a share from 0 to 1. */
export function shade(share: number): string {
  const at = Math.min(1, Math.max(0, share)) * (STOPS.length - 1), low = Math.floor(at), rest = at - low;
  const [a, b] = [STOPS[low]!, STOPS[Math.min(low + 1, STOPS.length - 1)]!];
  return `rgb(${a.map((value, channel) => Math.round(value + (b[channel]! - value) * rest)).join(" ")})`;
}

/** Return the color of a share for lines and points, which must stand out from the ground. */
export const lineShade = (share: number, isDark: boolean): string => shade(isDark ? 0.35 + 0.65 * share : 0.92 * share);
