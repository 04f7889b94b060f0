/** What the page asks about the inside of a model. */
import type { Line, Value } from "./types";

export type Values = { shape: number[]; values: (number | null)[] };
export type Curves = {
  training: Line | null; validation: Line | null; gaps: [number, number, number][]; diagnosis: string; text: string; remedy: string;
  findings: string[]; best_step: number | null;
};
export type Overview = { evaluations: number; saliency_methods: string[]; saliency_samples: string[]; tensors: string[]; curves: Curves };
export type Frame = { step: number; points: (number | null)[]; predictions: Value[] | null; losses: (number | null)[] | null; neighbor_accuracy: Value; accuracy: Value };
export type Latent = {
  layer: string; features: number; method: string; fit: string; explained: [Value, Value]; samples: string[]; samples_left_out: number; targets: number[] | null;
  is_classes: boolean; evaluations: number; extent: number[]; frames: Frame[];
};
export type Sample = { sample: string; target: Value; input: Values | null; steps: number[]; predictions: Value[]; losses: Value[]; neighbors: string[] };
export type Saliency = { sample: string; method: string; methods: string[]; input: Values | null; is_image: boolean; maps: ({ step: number; prediction: Value } & Values)[] };
export type RidgeRows = { key: string; steps: number[]; exponents: number[]; negative: number[][]; positive: number[][]; zeros: number[]; nonfinite: number[]; means: Value[]; stds: Value[] };

export const METHOD_NAMES: Record<string, string> = {
  "gradient-input": "Gradient × input", smoothgrad: "SmoothGrad", "integrated-gradients": "Integrated gradients",
};

/** Return whether an input of this shape is drawn as an image. */
export function isImage(shape: number[]): boolean {
  if (shape.length === 2) return Math.min(...shape) > 3;
  const sorted = [...shape].sort((a, b) => a - b);
  return shape.length === 3 && [shape[0], shape[2]].some((size) => size === 1 || size === 3 || size === 4) && sorted[1]! > 1;
}
