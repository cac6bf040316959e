// Finds the channels with waiting rows without reading those rows.

/** Returns SQL that lists the channels with rows that satisfy `open`, and `due` if given. It iterates
 *  over the channels through the index on (channel, ...) WHERE `open`; a plain DISTINCT would read the
 *  whole backlog at every commit. */
export function channelsIn(
  table: "events" | "replies" | "attachments" | "watches",
  open: string,
  due?: string,
): string {
  const waiting =
    due === undefined
      ? ""
      : `AND EXISTS (SELECT 1 FROM ${table} WHERE ${open} AND ${table}.channel = found.channel AND ${due})`;
  return `WITH RECURSIVE found (channel) AS (
     SELECT MIN(channel) FROM ${table} WHERE ${open}
     UNION ALL
     SELECT (SELECT MIN(channel) FROM ${table} WHERE ${open} AND channel > found.channel)
     FROM found WHERE found.channel IS NOT NULL
   )
   SELECT channel FROM found WHERE channel IS NOT NULL ${waiting}`;
}
