import { figure } from "./format";

export type Frame = { first_step: number; last_step: number; counts: number[][] };
/** Target, prediction, count, share of the target. */
export type Confused = [number, number, number, number];
type Last = { last: unknown };
type Recorded = { classes: number[]; left_out: number; labels: number[]; confused: Confused[]; frames: Frame[]; accuracy: Last | null; accuracy_by_class: Record<string, Last> };
/** Classes at one matrix; the most confused first. */
type ClassesAt = { steps: string; accuracy: number | null; samples: number[]; accuracies: (number | null)[]; confused: Confused[] };

/** Return the index of the matrix of a step; that of the last without a step. */
export function placeAt(frames: readonly { first_step: number }[], step: number | null): number {
  const after = step === null ? -1 : frames.findIndex((frame) => frame.first_step > step);
  return after < 0 ? frames.length - 1 : Math.max(0, after - 1);
}

/** Return the steps of a matrix in words; "" if it has none. */
export function stepsOf(frame: { first_step: number; last_step: number } | undefined): string {
  if (!frame || frame.last_step < 0) return "";
  return frame.first_step === frame.last_step ? `step ${figure(frame.last_step)}` : `steps ${figure(frame.first_step)}–${figure(frame.last_step)}`;
}

/** Return the classes at a step; without a matrix of all of them, those over all recorded steps. */
export function classesAt(found: Recorded, step: number | null): ClassesAt {
  const frame = found.left_out ? undefined : found.frames[placeAt(found.frames, step)];
  return frame ? classesOf(found.classes, frame) : {
    steps: "all recorded steps", accuracy: last(found.accuracy), samples: found.labels,
    accuracies: found.classes.map((name) => last(found.accuracy_by_class[String(name)])), confused: found.confused,
  };
}

function classesOf(classes: readonly number[], frame: Frame): ClassesAt {
  const samples = frame.counts.map((row) => sum(row));
  const right = frame.counts.map((row, at) => row[at] ?? 0);
  const confused = frame.counts.flatMap((row, target) => row.flatMap((count, prediction): Confused[] =>
    count && target !== prediction ? [[classes[target]!, classes[prediction]!, count, count / samples[target]!]] : []));
  return {
    steps: stepsOf(frame), accuracy: sum(samples) ? sum(right) / sum(samples) : null, samples,
    accuracies: samples.map((count, at) => (count ? right[at]! / count : null)), confused: confused.sort(([, , one], [, , other]) => other - one),
  };
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const last = (curve: Last | null | undefined) => (curve ? Number(curve.last) : null);
