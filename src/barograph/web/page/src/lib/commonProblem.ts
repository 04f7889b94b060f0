/** The end of the text of a problem: since when it exists. */
const SINCE = /, since step [\d,]+$/;

/**
 * Return what some runs have in common.
 * @param problems The first problem of each run, as in the list of runs.
 * @param rule What a rule reports that has a finding in all `runs` runs, in words, for problems that are all different.
 * @param of Number of runs, with and without problems.
 */
export function commonProblem(problems: readonly string[], rule: string, runs: number, of: number): string {
  const same = new Map<string, string[]>();
  for (const problem of problems) {
    const title = problem.replace(SINCE, "");
    same.set(title, [...(same.get(title) ?? []), problem]);
  }
  const [title, texts] = [...same].sort(([, one], [, other]) => other.length - one.length)[0] ?? ["", []];
  const among = (count: number) => (count === of ? (of === 1 ? "" : ` (all ${of} runs)`) : ` (${count} of ${of} runs)`);
  // The problems of some of many runs say nothing of the number of all that have them.
  if (!texts.length || runs > problems.length || (texts.length === 1 && runs > 1)) return `${rule}${among(runs)}`;
  return `${texts.every((text) => text === texts[0]) ? texts[0] : title}${among(texts.length)}`;
}
