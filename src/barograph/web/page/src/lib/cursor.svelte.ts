/** The step that the pointer or the arrow keys are at, in all panels. */
export const cursor = $state<{ step: number | null }>({ step: null });
