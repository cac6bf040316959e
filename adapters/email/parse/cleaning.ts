// Text as people see it: no control characters, nothing invisible, one kind of line end.

/** Longer texts are cut; a person does not write as much, and nobody reads it. */
const maxTextLength = 1_000_000;

/** Controls except tab and newline; zero-width, bidi and tag characters, soft hyphens: all can hide words from a human eye. */
// biome-ignore format: one class per line reads best
const invisible =
  /\u034f|\u17b4|\u17b5|\u180b|\u180c|\u180d|\u180f|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{1d173}-\u{1d17a}]|[\u{e0000}-\u{e0fff}]/gu;
/** Joiners have a use inside words of some scripts and in emoji; beside ASCII or in runs they only hide something. */
const idleJoiners =
  /[\u200c\u200d]{2,}|(?<=^|[\u0000-\u007f])[\u200c\u200d]|[\u200c\u200d](?=$|[\u0000-\u007f])/gu;

/** Removes what a reader cannot see; line ends become `\n`, lone surrogates U+FFFD. */
export function cleanText(text: string): string {
  const bounded = text.length > maxTextLength ? text.slice(0, maxTextLength) : text;
  return bounded
    .toWellFormed()
    .replace(/\r\n?|[\u0085\u2028\u2029]/g, "\n")
    .replace(invisible, "")
    .replace(idleJoiners, "")
    .replace(/\u00a0/g, " ");
}

/** The same for a value that must stay on one line, such as a subject or a name. */
export function cleanLine(text: string, maxLength = 1000): string {
  return cleanText(text.slice(0, maxLength * 4))
    .replace(/[\n\t]+/g, " ")
    .trim()
    .slice(0, maxLength)
    .toWellFormed();
}

const maxNameLength = 200;

/** A file's name as data: never a path, never a surprise in a terminal or a shell. */
export function cleanFileName(name: string | null, fallback: string): string {
  const whole = name ?? "";
  const base = cleanLine(whole.length > 1000 ? whole.slice(0, 900) + whole.slice(-100) : whole)
    .replace(/[\\/:*?"<>|]+/g, "_")
    .replace(/^[.\s_]+/, "")
    .replace(/[.\s]+$/, "");
  if (base === "") return fallback;
  return base.length > maxNameLength ? shorten(base) : base;
}

/** Cuts in the middle, so that the ending survives. */
function shorten(name: string): string {
  const dot = name.lastIndexOf(".");
  const ending = dot > 0 && name.length - dot <= 12 ? name.slice(dot) : "";
  return (name.slice(0, maxNameLength - ending.length) + ending).toWellFormed();
}
