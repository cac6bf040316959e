// Server-sent events, as far as models send them: the data of each event, in order (WHATWG HTML, 9.2.6).

export interface EventReader {
  feed(text: string): void;
}

/** Calls `told` with each whole event's data. What stands behind the last empty line is no event. */
export function readEvents(told: (data: string) => void): EventReader {
  let pending: string[] = [];
  let data: string[] = [];
  const take = (line: string) => {
    if (line === "") {
      if (data.length > 0) told(data.join("\n"));
      data = [];
      return;
    }
    // Comments have no name; other fields do not concern us.
    const [name, value = ""] = /^([^:]*)(?::\x20?(.*))?$/s.exec(line)?.slice(1) ?? [];
    if (name === "data") data.push(value);
  };
  return {
    feed(text) {
      pending.push(text);
      // A long line comes in many pieces: joined once.
      if (!/[\r\n]/.test(text) && !pending.at(-2)?.endsWith("\r")) return;
      const lines = pending.join("").split(/\r\n|\n|\r(?!$)/);
      // A return at the end may be half of a line's end.
      pending = [lines.pop() ?? ""];
      for (const line of lines) take(line);
    },
  };
}
