// The key by which a bare handler finds the response to a request.

/** Returns method and path of a request line without ids and query. */
export function routeOf(line: string): string {
  return line.split("?")[0]?.replace(/[\da-f-]{36}/, ":id") ?? "";
}
