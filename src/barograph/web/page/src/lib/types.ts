export type Severity = "breaking" | "costly" | "doubtful" | "note";
export type Value = number | string | null;

export type RunRow = {
  key: string; name: string; run_id: string | null; state: string; started_unix: number | null; steps: number; loss: Value;
  open_findings: Partial<Record<Severity, number>>; findings: number; watched: boolean; judged_all: boolean; covered: boolean;
  cost_share: Value; place: string; url: string; command: string[]; problems: string[];
};
export type Runs = { runs: RunRow[]; roots: string[] };

export type Remedy = { text: string; setting?: string; old?: string; new?: string } & Record<string, unknown>;
export type Problem = {
  id: string; title: string; cause: string; weight: number; severity: Severity; state: "open" | "closed"; since_step: number;
  evidence: string[]; remedy: Remedy; findings: string[]; consequences: string[];
};
export type Finding = {
  id: string; code: string; rule: string; severity: Severity; state: string; message: string; remedy: string; since_step: number;
  opened_step: number; closed_step: number | null; subject: string; evidence: { key: string | null; step: number; text?: string }[];
} & Record<string, unknown>;
export type Run = {
  url: string; name: string; run_id: string; state: string; reason: string; started_unix: number; ended_unix: Value; secs: Value;
  command: string[]; attempt: number; steps: number; loss: Value; cost_share: Value; verdict: string; judged: boolean;
  open_findings: number; problems: Problem[]; findings: Finding[]; unseen: string[]; incidents: string[]; warnings: string[];
  not_evaluated: string; workers: { name: string; state: string; reason: string; host: string; device: string }[];
  held: { step: number; text: string; capsule: string }[]; actions: { action: string; result: string; step: number | null }[];
  go_on_from: number | null; damage: string; recorded: number | null; charts: string[]; chart_count: number;
};
export type Line = {
  name: string; statistic: string; mode: string; optimizer: string; count: number; last: Value; least: Value; greatest: Value;
  nonfinite: number; nonfinite_steps: [number, number][]; nonfinite_at: [number, number][]; span: number[];
  steps: number[]; positions: number[]; values: Value[]; mean_at?: number[]; means?: (number | null)[]; mean_counts?: number[];
};
export type RunLines = { lines?: Line[]; missing?: string[]; error?: string };
export type Recorded = { first_step: number; last_step: number; count: number; with_tensors: number; edges: number[]; shares: (number | null)[] };
export type Layer = {
  path: string; class: string; health: string; findings: string[]; figures: Record<string, Record<string, Value>>;
  gradient_norms: { steps: number[]; values: Value[] };
};
export type Heat = {
  kind: string; statistic: string; layers: string[]; steps: [number, number][]; values: (number | null)[][]; nonfinite: number[][];
};
