// Waiting for what others do: looks again and again, for a bounded time.

/** Resolves when `look` no longer throws; rejects with its last error after `withinMs`. */
export async function eventually(look: () => unknown, withinMs = 60_000): Promise<void> {
  for (const end = performance.now() + withinMs; ; ) {
    try {
      await look();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
