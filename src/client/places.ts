// Who may hold a connection. The pool has a queue of its own, but nobody can leave it: what gave up waiting there is
// started all the same, and breaks the connection it was given.

export interface Places {
  /** Runs `begin` once a place is free: at once, or when it is the caller's turn. Call what it returns exactly once, and
   *  not from within `begin`: it gives the place back, or ends the waiting. */
  enter(begin: () => void): () => void;
}

/** First come, first served. */
export function createPlaces(count: number): Places {
  let free = count;
  const waiting = new Set<() => void>();

  function next(): void {
    const [first] = waiting;
    if (!first) {
      free++;
      return;
    }
    waiting.delete(first);
    first();
  }

  return {
    enter(begin) {
      let inside = false;
      const start = () => {
        inside = true;
        begin();
      };
      waiting.add(start);
      if (free > 0) {
        free--;
        next();
      }
      return () => {
        if (inside) next();
        else waiting.delete(start);
      };
    },
  };
}
