/** Color of a run: the same everywhere and after every restart, because it comes from the run's place; a user may choose another. */

/** Twelve hues of even lightness in OKLCH, twice; at least 3:1 against the ground. */
const LIGHT = [
  "#ca4459", "#048c8c", "#a46e03", "#7366d9", "#4b8e0c", "#bc4891", "#0c87aa", "#c65102", "#2279dc", "#867d05", "#9f55be", "#029068",
  "#04527b", "#7e3126", "#573c7f", "#0b5d2a", "#5f4a04", "#7b2e4b", "#035763", "#6d3369", "#475404", "#364789", "#733e02", "#075a4f",
];
const DARK = [
  "#ff9ea6", "#2ad7d7", "#eeb154", "#b7b5fd", "#99d079", "#f99bd1", "#49cffc", "#fda57c", "#91c1ff", "#cac256", "#dda4f7", "#5ed8a9",
  "#259cde", "#da6d5d", "#a07cdb", "#47aa62", "#b18d0f", "#d56a8f", "#08a4b8", "#c170bb", "#889e2a", "#718ce8", "#cf7b26", "#14a995",
];

/** Return the colors that a user may choose from. */
export const choices = (dark: boolean): readonly string[] => (dark ? DARK : LIGHT).slice(0, 12);

/** FNV-1a: spreads similar names over all colors. */
function hash(text: string): number {
  let found = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) found = Math.imul(found ^ text.charCodeAt(at), 0x01000193);
  found = Math.imul(found ^ (found >>> 15), 0x2c1b3c6d);
  return (found ^ (found >>> 13)) >>> 0;
}

/** Return the color of a run. `key` is its key, such as 0/digits/first; `chosen` the color that a user chose, or "". */
export function runColor(key: string, dark: boolean, chosen = ""): string {
  if (chosen) return chosen;
  const colors = dark ? DARK : LIGHT;
  return colors[hash(key.replace(/^\d+\//, "")) % colors.length]!;
}
