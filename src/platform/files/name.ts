// What a file is called here.

/** The last part of a path, without what is no name. */
export function fileName(given: string): string {
  // oxlint-disable-next-line no-control-regex
  const name = (given.split(/[\\/]/).at(-1) ?? "").replace(/[\u0000-\u001f\u007f]/g, "").trim();
  return name.slice(0, 255) || "file";
}
