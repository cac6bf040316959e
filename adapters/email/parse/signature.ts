// Where a signature begins.

import type { Line } from "./lines.ts";
import { mobileEndings, mobileSignatures } from "./phrases.ts";

/** A block below "-- " longer than this is no signature. */
const maxSignature = 15;
/** How near to the end a phone's line stands. */
const maxBelowMobile = 2;

/** Index of the first line of the signature at the end of `lines`, or -1. Lists of addresses are what a mail is about, never a signature. */
export function signatureStart(lines: readonly Line[]): number {
  let filled = 0;
  for (let i = lines.length - 1; i >= 0 && filled <= maxSignature; i--) {
    const line = lines[i];
    if (line === undefined || line.kind === "blank") continue;
    if (line.kind !== "own") return -1;
    if (isDelimiter(line.text)) return isAddressList(lines.slice(i + 1)) ? -1 : i;
    if (filled < maxBelowMobile && isMobile(line.text)) return i;
    filled++;
  }
  return -1;
}

const isDelimiter = (text: string) =>
  text === "-- " || text === "--" || text === "— " || text === "-- \u00a0";

function isMobile(text: string): boolean {
  const line = text
    .trim()
    .replace(/^[-–—_*\s]{1,10}/, "")
    .toLowerCase();
  if (line.length === 0 || line.length > 120) return false;
  // "Sent from my office in Paris, where I ..." is a sentence; the phone's line is short and ends soon.
  if (mobileSignatures.some((start) => line.startsWith(start)))
    return line.split(/\s+/).length <= 12 && !/[?!]/.test(line);
  return (
    /iphone|ipad|android|samsung|handy|mobil|huawei|xiaomi/.test(line) &&
    mobileEndings.some((end) => line.endsWith(end))
  );
}

function isAddressList(lines: readonly Line[]): boolean {
  const filled = lines.filter((line) => line.kind === "own");
  const addresses = filled.filter(
    (line) => line.text.length < 320 && /^\W{0,4}[^\s@]{1,64}@[^\s@]{1,255}$/.test(line.text.trim()),
  );
  return addresses.length >= 3 || (addresses.length >= 2 && addresses.length === filled.length);
}
