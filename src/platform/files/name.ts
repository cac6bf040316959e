// What a file is called here, and where it is saved.

/** The last part of a path, without what is no name. */
export function fileName(given: string): string {
  // oxlint-disable-next-line no-control-regex
  const name = (given.split(/[\\/]/).at(-1) ?? "").replace(/[\u0000-\u001f\u007f]/g, "").trim();
  // What the end cut through is no character any more.
  return name.slice(0, 255).toWellFormed() || "file";
}

/** The header that has a browser save a file under its name, whatever is in that (RFC 6266, RFC 8187). */
export function savedAs(name: string): string {
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename*=UTF-8''${encoded}`;
}
