import { Failed } from "./api";
import { session } from "./session.svelte";

/** Send a change as JSON and return the answer. */
export async function post<T>(path: string, data: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(data) });
  } catch {
    throw new Failed("The server does not respond, so nothing was saved.", 0);
  }
  const text = await response.text();
  if (response.status === 401 && path !== "login") session.needsToken = true;
  if (!response.ok) throw new Failed(messageIn(text), response.status);
  return (text ? JSON.parse(text) : undefined) as T;
}

function messageIn(text: string): string {
  try {
    return String((JSON.parse(text) as { error?: string }).error ?? text);
  } catch {
    return text || "The server failed.";
  }
}
