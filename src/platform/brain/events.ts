// Incremental parser for server-sent events (WHATWG HTML, section 9.2.6). Model servers need only the data
// fields.

export interface EventReader {
  feed(text: string): void;
}

/** Calls `told` with the data of each complete event. An event without its final empty line is
 *  discarded. */
export function readEvents(told: (data: string) => void): EventReader {
  let pending: string[] = [];
  let data: string[] = [];
  const take = (line: string) => {
    if (line === "") {
      if (data.length > 0) told(data.join("\n"));
      data = [];
      return;
    }
    // Comments have an empty field name. Fields other than data are ignored.
    const [name, value = ""] = /^([^:]*)(?::\x20?(.*))?$/s.exec(line)?.slice(1) ?? [];
    if (name === "data") data.push(value);
  };
  return {
    feed(text) {
      pending.push(text);
      // Buffers the pieces of a long line and joins them once, so the cost stays linear.
      if (!/[\r\n]/.test(text) && !pending.at(-2)?.endsWith("\r")) return;
      const lines = pending.join("").split(/\r\n|\n|\r(?!$)/);
      // A trailing CR may be the first half of a CRLF, so it stays in the buffer.
      pending = [lines.pop() ?? ""];
      for (const line of lines) take(line);
    },
  };
}
