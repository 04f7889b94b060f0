/** What the page asks about the inside of a model. */
export type {
  Inside as Overview, Latent, LatentFrame as Frame, LearningCurves as Curves, ProbeSample as Sample, Ridges as RidgeRows, SaliencyOverTime as Saliency,
  SampleValues as Values,
} from "./types";

export const METHOD_NAMES: Record<string, string> = {
  "gradient-input": "Gradient × input", smoothgrad: "SmoothGrad", "integrated-gradients": "Integrated gradients",
};

/** Return whether an input of this shape is drawn as an image. */
export function isImage(shape: number[]): boolean {
  if (shape.length === 2) return Math.min(...shape) > 3;
  const sorted = [...shape].sort((a, b) => a - b);
  return shape.length === 3 && [shape[0], shape[2]].some((size) => size === 1 || size === 3 || size === 4) && sorted[1]! > 1;
}
