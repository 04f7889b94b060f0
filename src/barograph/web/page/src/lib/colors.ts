/** Colors of lines: told apart also by people who see red and green alike (Okabe & Ito, 2008), in two tones. */
const LIGHT = ["#0f655d", "#c2570c", "#3b5bb5", "#a33b78", "#7a6a00", "#2b86b8", "#8a3324", "#4d4d4d"];
const DARK = ["#63c7ba", "#ffb066", "#90aaf5", "#eb91c4", "#e6d35c", "#7cc6ee", "#f0937f", "#bdbdbd"];

export function colorOf(place: number, dark: boolean): string {
  const colors = dark ? DARK : LIGHT;
  return colors[place % colors.length]!;
}

/** Dashes of lines, in pixels: the ninth line is dashed in the first color. */
const DASHES = [[], [9, 3], [2, 3]] as const;
/** Return in which of the rounds of colors a place is. */
export const roundOf = (place: number) => Math.max(0, Math.floor(place / LIGHT.length)) % DASHES.length;
export const dashOf = (place: number): readonly number[] => DASHES[roundOf(place)]!;
