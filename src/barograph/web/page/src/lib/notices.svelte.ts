/** Short messages at the edge of the page, with one action such as undo. */
export type Notice = { id: number; text: string; action?: { label: string; run: () => void | Promise<void> } };

const LONGEST_MS = 120_000;
export const notices = $state<Notice[]>([]);
let count = 0;

export function notify(text: string, action?: Notice["action"]): void {
  const id = ++count;
  notices.push({ id, text, action });
  setTimeout(() => dismiss(id), action ? LONGEST_MS : LONGEST_MS / 12);
}

export function dismiss(id: number): void {
  const at = notices.findIndex((notice) => notice.id === id);
  if (at >= 0) notices.splice(at, 1);
}
