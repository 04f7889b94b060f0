/** Places of the nodes of a lineage: columns from the sources of an item to its results. */
type Node = { uid: string; kind: string; name: string; state: string; column: number; key: string | null; job: string | null; /** Number of files that it stands for. */ files?: number };
type Edge = { source: string; relation: string; target: string };
export type Graph = { nodes: Node[]; edges: Edge[]; left_out: number; reruns: string[] };
export type Placed = Node & { x: number; y: number };

export const WIDTH = 190, HEIGHT = 46;
const GAP_X = 80, GAP_Y = 16, MARGIN = 4;
/** Files of one run that nobody else read or made and that are drawn one by one. */
const MOST_FILES = 4;

/** Return the graph with one node for the many files that only one run made, or only one run read. */
export function folded(graph: Graph): Graph {
  const artifacts = new Set(graph.nodes.filter(({ kind, column }) => kind === "artifact" && column !== 0).map(({ uid }) => uid));
  const runsOf = new Map<string, string[]>(), alone = new Map<string, string[]>();
  for (const { source, relation, target } of graph.edges) {
    const [file, run] = artifacts.has(source) ? [source, target] : [target, source];
    if (artifacts.has(file)) runsOf.set(file, [...(runsOf.get(file) ?? []), `${relation} ${run}`]);
  }
  for (const [file, [only, ...others]] of runsOf) if (!others.length) alone.set(only!, [...(alone.get(only!) ?? []), file]);
  const gone = new Map<string, string>();
  const more: Node[] = [], byUid = new Map(graph.nodes.map((node) => [node.uid, node]));
  for (const [whose, files] of alone) {
    if (files.length <= MOST_FILES + 1) continue;
    const rest = files.slice(MOST_FILES), uid = `files ${whose}`, run = byUid.get(whose.slice(whose.indexOf(" ") + 1));
    more.push({ ...byUid.get(rest[0]!)!, uid, name: `${rest.length} more files`, key: run?.key ?? null, files: rest.length });
    for (const file of rest) gone.set(file, uid);
  }
  const edges = graph.edges.map(({ source, relation, target }) => ({ source: gone.get(source) ?? source, relation, target: gone.get(target) ?? target }));
  const once = new Map(edges.map((edge) => [JSON.stringify(edge), edge]));
  return { ...graph, nodes: [...graph.nodes.filter(({ uid }) => !gone.has(uid)), ...more], edges: [...once.values()] };
}

export function placed({ nodes, edges }: Graph): { nodes: Placed[]; width: number; height: number } {
  const columns = [...new Set(nodes.map((node) => node.column))].sort((one, other) => one - other);
  const members = new Map(columns.map((column) => [column, nodes.filter((node) => node.column === column)]));
  // From the item outwards: each node near those that it is linked with.
  const rows = new Map<string, number>();
  for (const column of [...columns].sort((one, other) => Math.abs(one) - Math.abs(other))) {
    const mean = (node: Node) => {
      const near = edges.flatMap(({ source, target }) => (source === node.uid ? [target] : target === node.uid ? [source] : [])).map((uid) => rows.get(uid)).filter((row) => row !== undefined);
      return near.length ? near.reduce((sum, row) => sum + row, 0) / near.length : Infinity;
    };
    const means = new Map(members.get(column)!.map((node) => [node.uid, mean(node)]));
    const inOrder = members.get(column)!.sort((one, other) => (means.get(one.uid) === means.get(other.uid) ? 0 : means.get(one.uid)! - means.get(other.uid)!) || (one.files ?? 0) - (other.files ?? 0));
    inOrder.forEach((node, row) => rows.set(node.uid, row - (inOrder.length - 1) / 2));
  }
  const tallest = Math.max(1, ...[...members.values()].map((column) => column.length));
  const height = tallest * (HEIGHT + GAP_Y) - GAP_Y;
  const found = columns.flatMap((column, at) => members.get(column)!.map((node) => ({
    ...node, x: MARGIN + at * (WIDTH + GAP_X), y: MARGIN + (height - HEIGHT) / 2 + rows.get(node.uid)! * (HEIGHT + GAP_Y) })));
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
