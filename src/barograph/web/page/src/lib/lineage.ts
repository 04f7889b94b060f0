/** Places of the nodes of a lineage: columns from the sources of an item to its results. */
type Node = { uid: string; kind: string; name: string; state: string; column: number; key: string | null; job: string | null };
type Edge = { source: string; relation: string; target: string };
export type Graph = { nodes: Node[]; edges: Edge[]; left_out: number; reruns: string[] };
export type Placed = Node & { x: number; y: number };

export const WIDTH = 190, HEIGHT = 46;
const GAP_X = 80, GAP_Y = 16, MARGIN = 4;

export function placed(nodes: Node[]): { nodes: Placed[]; width: number; height: number } {
  const columns = [...new Set(nodes.map((node) => node.column))].sort((one, other) => one - other);
  const members = columns.map((column) => nodes.filter((node) => node.column === column));
  const tallest = Math.max(1, ...members.map((column) => column.length));
  const height = tallest * (HEIGHT + GAP_Y) - GAP_Y;
  const found = members.flatMap((column, at) => {
    const top = (height - (column.length * (HEIGHT + GAP_Y) - GAP_Y)) / 2;
    return column.map((node, row) => ({ ...node, x: MARGIN + at * (WIDTH + GAP_X), y: MARGIN + top + row * (HEIGHT + GAP_Y) }));
  });
  return { nodes: found, width: columns.length * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN, height: height + 2 * MARGIN };
}

/** The line between two nodes, from the earlier to the later. */
export function lineOf(earlier: Placed, later: Placed): string {
  const forward = later.x >= earlier.x;
  const x1 = earlier.x + (forward ? WIDTH : 0), x2 = later.x + (forward ? 0 : WIDTH), bend = (x2 - x1) / 2;
  const y1 = earlier.y + HEIGHT / 2, y2 = later.y + HEIGHT / 2;
  if (earlier.x === later.x) return `M${x1} ${y1} C${x1 + 40} ${y1} ${x1 + 40} ${y2} ${later.x + WIDTH} ${y2}`;
  return `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

export const WORDS: Record<string, string> = { read: "read", made_by: "was made by", part_of: "is part of", derived_from: "is derived from", contributed_to: "contributed to", associated_with: "is associated with", produced: "produced", same_as: "is the same as" };
