// Maps a message centre's status codes to error classes (SMPP v3.4, 5.1.3). Codes from 0x400 on are
// specific to the message centre.

import { classes, type TextClass } from "../classes.ts";

const codes = classes<number>({
  recipient: [0x0b, 0x50, 0x51],
  login: [0x04, 0x05, 0x0d, 0x0e, 0x0f],
  account: [0x15, 0x53, 0x66],
  "set-up": [0x0a, 0x48, 0x49],
  content: [0x01, 0x02, 0x06, 0x07, 0x43, 0x61, 0x62, 0x63, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4],
  rate: [0x14, 0x58],
  unreached: [0x08, 0x45, 0x64, 0x65],
  // "Unknown error" is the only information.
  ambiguous: [0xff],
});

/** Returns the class of a status above 0. Null: an unknown error, which refuses the text. */
export function classOf(status: number): TextClass | null {
  return codes.get(status) ?? null;
}

/** Returns `0x0b`, the form used in the documentation of all message centres. */
export function codeOf(status: number): string {
  return `0x${status.toString(16).padStart(2, "0")}`;
}
