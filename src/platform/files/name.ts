// Formats the names of files, for storage and for downloads.

/** Returns the last part of a path, without control characters. */
export function fileName(given: string): string {
  // oxlint-disable-next-line no-control-regex
  const name = (given.split(/[\\/]/).at(-1) ?? "").replace(/[\u0000-\u001f\u007f]/g, "").trim();
  // The cut can leave a lone surrogate at the end.
  return name.slice(0, 255).toWellFormed() || "file";
}

/** Returns the Content-Disposition header that makes a browser save the file under any name (RFC 6266,
 *  RFC 8187). */
export function savedAs(name: string): string {
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename*=UTF-8''${encoded}`;
}
