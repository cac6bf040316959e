// What a bare handler knows requests by.

/** `line` is a method and a path; ids and the query do not count. */
export function routeOf(line: string): string {
  return line.split("?")[0]?.replace(/[\da-f-]{36}/, ":id") ?? "";
}
