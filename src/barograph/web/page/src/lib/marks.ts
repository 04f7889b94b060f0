import { notify } from "./notices.svelte";
import { post } from "./post";

export type Note = { time_unix: number; by: string; text: string };
export type Marks = {
  uid: string; kind: string; name: string; description: string; starred: boolean; archived: boolean; deleted_unix: number | null;
  tags: Record<string, string>; notes: Note[]; trials: { uid: string; name: string; experiment: string }[]; version: string; may_edit: boolean;
};
export type Changes = Partial<{ name: string; description: string; note: string; tags: Record<string, string | null>; starred: boolean; archived: boolean; experiment: string; trial: string }>;
export type Item = { run: string } | { root: number; uid: string };
type Named = { uid: string; kind: string; name: string };

export const edit = (item: Item, changes: Changes, version = ""): Promise<Marks> => post<Marks>("api/edit", { ...item, changes, version });

/** Delete an item and offer the undo. */
export async function remove(item: Item, cascade = false): Promise<void> {
  const { deleted, undo_days } = await post<{ deleted: Named[]; undo_days: number }>("api/delete", { ...item, cascade });
  const more = deleted.length > 1 ? ` and ${deleted.length - 1} more` : "";
  notify(`Deleted “${deleted[0]!.name}”${more}. Its files stay. You can restore it for ${undo_days} days.`, {
    label: "Undo", run: () => restore(item),
  });
}

export async function restore(item: Item): Promise<void> {
  const { restored } = await post<{ restored: Named[] }>("api/restore", item);
  notify(`Restored “${restored[0]!.name}”.`);
}
