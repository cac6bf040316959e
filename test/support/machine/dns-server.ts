// A DNS server on loopback that answers TXT queries from a table (RFC 1035).

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { onTestFinished } from "vitest";

/** Returns its address for `sender_auth.dns`. A name that is not in the table does not exist. */
export async function startDns(records: Readonly<Record<string, readonly string[]>>): Promise<string> {
  const server = createSocket("udp4");
  server.on("message", (query, from) => server.send(answerTo(query, records), from.port, from.address));
  server.bind(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return `127.0.0.1:${server.address().port}`;
}

function answerTo(query: Buffer, records: Readonly<Record<string, readonly string[]>>): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  const question = query.subarray(12, at + 5);
  const texts = records[labels.join(".").toLowerCase()] ?? [];
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(texts.length > 0 ? 0x8180 : 0x8183, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(texts.length, 6);
  const answers = texts.map((text) => {
    const bytes = Buffer.from(text);
    const record = Buffer.alloc(12);
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(16, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(60, 6);
    record.writeUInt16BE(bytes.length + 1, 10);
    return Buffer.concat([record, Buffer.from([bytes.length]), bytes]);
  });
  return Buffer.concat([header, question, ...answers]);
}
