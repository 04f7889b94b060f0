import type { Severity, Value } from "../../lib/types";

export type RunFinding = { rule: string; words: string; severity: Severity; is_open: boolean };
export type ListedRun = {
  key: string; uid: string; place: string; name: string; color: string; starred: boolean; values: (Value | boolean | unknown[])[]; findings: RunFinding[];
};
export type Indexing = { done: number; total: number; is_first: boolean; failure: string; problems: string[]; more_problems: number };
export type RunPage = { count: number; columns: string[]; rows: ListedRun[]; hints: string[]; indexing: Indexing };
export type RunColumn = { name: string; field: string; label: string; group: string; runs: number; differs: boolean; low: number | null; high: number | null };
export type RunColumns = { columns: RunColumn[]; count: number; usual: string[] };
export type Verdict = { outcome: "accepted" | "rejected" | "undecided"; difference: Value; low: Value; high: Value; level: number; reason: string };
export type RunGroup = {
  name: string; mean: Value; low: Value; high: Value; runs: number; independent: number; counted: string; repeats: string[]; differs: string[];
  best_run: string; best_name: string; best: Value; findings: { rule: string; words: string; severity: Severity; runs: number; some: string[] }[]; behind: Verdict | null;
};
export type RunGroups = {
  by: string; metric: string; greater_is_better: boolean; level: number; verdict: Verdict | null; sentence: string; groups: RunGroup[]; count: number; without: number; runs: number;
};
export type RunPoints = { count: number; keys: string[]; names: string[]; colors: string[]; columns: Record<string, (Value | boolean | unknown[])[]> };
export type Importance = { parameter: string; share: number; chance: number; correlation: number | null; runs: number; groups: number };
export type RunImportances = { metric: string; runs: number; found: Importance[] };
export type Suggestions = { start: number; items: { text: string; detail: string }[]; problem: { message: string; start: number; stop: number } | null };
