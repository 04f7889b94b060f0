import type { Studies, Value } from "./types";

export type Job = {
  name: string; url: string; phase: string | null; doing: string; reason: string; command: string[]; engine: string; instances: number;
  attempt: number; submitted_unix: number; ended_unix: Value; waited_secs: number; trained_secs: number; step: number; loss: Value;
  interruptions: number; repeated_steps: number; exit_code: number | null; done_bytes: number; total_bytes: number;
  cost: string; is_over: boolean; run: string | null; queue: number | null;
};
/** Jobs, those of studies as their studies. */
export type Jobs = { jobs: Job[]; left_out: number; studies: Studies["studies"] };
export type Moment = { time_unix: number; kind: string; text: string; attempt: number };
export type JobOutput = { attempt: number; attempts: number; instances: { instance: string; text: string; left_out: boolean }[] };

/** What a job is doing, in a word. */
export function stateOf(job: Job): string {
  if (job.phase === null) return job.doing || "unknown";
  if (job.is_over || !job.doing) return job.phase;
  return job.doing === "training" ? "running" : job.doing;
}

/** Return whether a job is one of a study: a trial, its repetition, or a refit. */
export const trialJobOf = (job: string, study: string): boolean => job.startsWith(`${study}-`) && /^\d{3,}(-s\d+|-refit)?(\.\d+)?$/.test(job.slice(study.length + 1));
