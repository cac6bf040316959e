// Normalizes text to what a mail client shows: no control or invisible characters, and one kind of line
// end.

/** Longer texts are truncated; a person does not write that much. In characters. */
const maxTextLength = 1_000_000;

/** Controls except tab and newline, zero-width, bidi and tag characters, and soft hyphens. All of them
 *  can hide text from a human reader. */
// biome-ignore format: one class per line reads best
const invisible =
  /\u034f|\u17b4|\u17b5|\u180b|\u180c|\u180d|\u180f|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{1d173}-\u{1d17a}]|[\u{e0000}-\u{e0fff}]/gu;
/** Joiners have a function inside text of some scripts and in emoji. Next to ASCII or in runs they only
 *  hide content. */
const idleJoiners =
  /[\u200c\u200d]{2,}|(?<=^|[\u0000-\u007f])[\u200c\u200d]|[\u200c\u200d](?=$|[\u0000-\u007f])/gu;

/** Removes characters that a reader cannot see. Line ends become `\n`, and lone surrogates become
 *  U+FFFD. */
export function cleanText(text: string): string {
  const bounded = text.length > maxTextLength ? text.slice(0, maxTextLength) : text;
  return bounded
    .toWellFormed()
    .replace(/\r\n?|[\u0085\u2028\u2029]/g, "\n")
    .replace(invisible, "")
    .replace(idleJoiners, "")
    .replace(/\u00a0/g, " ");
}

/** Marks a ">" that the sender typed, until the text is trimmed. A private-use character. */
const typedMark = "\ue0c2";

/** Removes the marks that `unflow` has set. */
export const withoutMarks = (text: string): string => text.replaceAll(typedMark, "");

/** Decodes format=flowed (RFC 3676): joins the lines of a paragraph, and keeps the quote depth of each.
 *  Lines of different depth are never joined (section 4.5), a leading space is removed (4.4), and "-- "
 *  is always a separate line (4.3). `delSp`: the space at the end of a joined line is not part of the
 *  text (4.2). A ">" after the removed space is not a quote mark and gets `typedMark`. */
export function unflow(text: string, delSp: boolean): string {
  const out: string[] = [];
  let paragraph: string[] = [];
  let depth = 0;
  const flush = () => {
    if (paragraph.length > 0)
      out.push(depth > 0 ? `${">".repeat(depth)} ${paragraph.join("")}`.trimEnd() : paragraph.join(""));
    paragraph = [];
  };
  for (const line of text.replace(/\r\n?/g, "\n").split("\n")) {
    let marks = 0;
    while (line[marks] === ">") marks++;
    const content = line.slice(line[marks] === " " ? marks + 1 : marks);
    const flows = content.endsWith(" ") && content !== "-- ";
    if (marks !== depth || content === "-- ") flush();
    depth = marks;
    const typed = content.startsWith(">") && paragraph.length === 0 ? typedMark : "";
    paragraph.push(typed + (flows && delSp ? content.slice(0, -1) : content));
    if (!flows) flush();
  }
  flush();
  return out.join("\n");
}

/** Cleans a value that must stay on one line, such as a subject or a name. */
export function cleanLine(text: string, maxLength = 1000): string {
  return cleanText(text.slice(0, maxLength * 4))
    .replace(/[\n\t]+/g, " ")
    .trim()
    .slice(0, maxLength)
    .toWellFormed();
}

const maxNameLength = 200;

/** Returns a safe file name: no path separators, and no characters that a terminal or shell interprets. */
export function cleanFileName(name: string | null, fallback: string): string {
  const whole = name ?? "";
  const base = cleanLine(whole.length > 1000 ? whole.slice(0, 900) + whole.slice(-100) : whole)
    .replace(/[\\/:*?"<>|]+/g, "_")
    .replace(/^[.\s_]+/, "")
    .replace(/[.\s]+$/, "");
  if (base === "") return fallback;
  return base.length > maxNameLength ? shorten(base) : base;
}

/** Truncates in the middle to keep the file extension. */
function shorten(name: string): string {
  const dot = name.lastIndexOf(".");
  const ending = dot > 0 && name.length - dot <= 12 ? name.slice(dot) : "";
  return (name.slice(0, maxNameLength - ending.length) + ending).toWellFormed();
}
