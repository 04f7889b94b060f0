import { figure, numberOf } from "./format";
import type { Studies, Study, TrialInfo, Value } from "./types";

/** A value of a parameter, as an axis or a cell of a table takes it. */
export type Setting = Value | string | boolean;

/** Return the value of an objective of a trial; of one without a value, the last that it reported. */
export function valueOf(trial: TrialInfo, objective = 0): number | null {
  const value = trial.values[objective];
  if (value !== undefined) return numberOf(value);
  return objective === 0 ? numberOf(trial.last) : null;
}

/** Return how many trials a study has, and how many of them run, finished, or ended without a result. */
export function countsOf(study: Studies["studies"][number]): string {
  const of = study.limit && study.limit > study.trials ? ` of ${figure(study.limit)}` : "", ended = study.trials - study.running - study.finished;
  const parts = ([[study.running, "running"], [study.finished, "finished"], [ended, "stopped or failed"]] as const).filter(([count]) => count).map(([count, what]) => `${figure(count)} ${what}`);
  return `${figure(study.trials)}${of}${parts.length ? `: ${parts.join(", ")}` : ""}`;
}

/** Return the time that a trial took, in seconds; null while it runs. */
export const secsOf = (trial: TrialInfo): number | null => (trial.ended_secs === null ? null : Number(trial.ended_secs) - Number(trial.started_secs));

/** Return the key of the run of a trial; "" if it has none that is served. */
export const runOf = (study: Study, trial: TrialInfo): string => (trial.job && study.runs_at !== null ? `${study.runs_at}/${trial.job}` : "");

const PROPOSERS: Record<string, string> = {
  start: "Spreads the first trials evenly", gp: "Gaussian process", tpe: "TPE", "cma-es": "CMA-ES", random: "Random search", grid: "Grid", given: "Given by the user", parent: "Among the best of an earlier study", import: "Imported", lost: "Damaged record",
};

export const proposerOf = (trial: TrialInfo): string => PROPOSERS[trial.proposer] ?? trial.proposer;

/**
 * Return the values that lie on an axis, and where it ends because a few are far worse than the others; Infinity if
 * none are. Values beyond are drawn at its edge.
 */
export function limitOf(losses: readonly number[]): number {
  const sorted = losses.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length < 5) return Infinity;
  const best = sorted[0]!, usual = sorted[Math.floor(0.75 * (sorted.length - 1))]!;
  return usual > best ? usual + 2 * (usual - best) : Infinity;
}
