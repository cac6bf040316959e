// Decodes the transfer encoding of a part. The MIME parser passes a part's lines one by one, all of them
// views of the message's single buffer. Storing only the start and end offsets costs nothing; collecting
// the lines would cost hundreds of bytes per line.

export interface Decoder {
  update(line: Uint8Array<ArrayBuffer>): void;
  /** Returns the decoded bytes; for unencoded parts a view of the message's buffer. */
  finalize(): Promise<Uint8Array>;
}

/** For `7bit`, `8bit` and `binary` the bytes are unchanged, line ends included. */
export function decoderFor(encoding: string): Decoder {
  let buffer: ArrayBuffer | null = null;
  let start = 0;
  let end = 0;
  return {
    update(line) {
      if (buffer === null) start = line.byteOffset;
      buffer = line.buffer;
      end = line.byteOffset + line.byteLength;
    },
    finalize: () =>
      Promise.resolve(decode(encoding, Buffer.from(buffer ?? new ArrayBuffer(0), start, end - start))),
  };
}

function decode(encoding: string, bytes: Buffer): Uint8Array {
  if (/base64/i.test(encoding)) return Buffer.from(bytes.toString("latin1"), "base64");
  return /quoted-printable/i.test(encoding) ? quotedPrintable(bytes) : bytes;
}

/** Decodes quoted-printable (RFC 2045, section 6.7). Invalid sequences are unchanged. */
function quotedPrintable(bytes: Buffer): Uint8Array {
  const out = Buffer.allocUnsafe(bytes.length);
  let to = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte !== 0x3d) {
      out[to++] = byte;
      continue;
    }
    const soft = softBreak(bytes, at + 1);
    const [high, low] = [hex(bytes[at + 1]), hex(bytes[at + 2])];
    if (soft > 0) at += soft;
    else if (high >= 0 && low >= 0) {
      out[to++] = high * 16 + low;
      at += 2;
    } else out[to++] = byte;
  }
  return out.subarray(0, to);
}

/** Returns how many bytes after the equals sign belong to a soft line break; 0 when there is no soft
 *  line break. */
function softBreak(bytes: Buffer, from: number): number {
  let at = from;
  while (at - from < 80 && (bytes[at] === 0x20 || bytes[at] === 0x09)) at++;
  if (at >= bytes.length) return at - from + 1;
  if (bytes[at] === 0x0d && bytes[at + 1] === 0x0a) return at - from + 2;
  return bytes[at] === 0x0a ? at - from + 1 : 0;
}

function hex(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
