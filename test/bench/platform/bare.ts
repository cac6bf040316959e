// The baseline for the embedded platform: node:http that answers prepared bytes to any request. With a file it also
// commits one row for each POST, with the same durability, before it answers. Arguments: one JSON object
// (BareServedOptions). Prints `ready` when it listens.

import { createServer } from "node:http";
import Database from "better-sqlite3";
import { routeOf } from "./route.ts";

export interface BareServedOptions {
  readonly port: number;
  /** By what `routeOf` makes of a request. */
  readonly answers: { readonly [route: string]: { readonly status: number; readonly body: string } };
  /** A new SQLite file; null: nothing is stored. */
  readonly file: string | null;
}

const options = JSON.parse(process.argv[2] ?? "") as BareServedOptions;

function storing(file: string): (body: string) => void {
  const db = new Database(file);
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  db.exec("CREATE TABLE request (body TEXT NOT NULL) STRICT");
  const insert = db.prepare("INSERT INTO request (body) VALUES (?)");
  return (body) => void insert.run(body);
}

const store = options.file === null ? () => {} : storing(options.file);

const server = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk: Buffer) => (body += chunk.toString()));
  request.on("end", () => {
    if (request.method === "POST") store(JSON.stringify(JSON.parse(body)));
    const answer = options.answers[routeOf(`${request.method} ${request.url}`)] ?? {
      status: 404,
      body: "{}",
    };
    response.writeHead(answer.status, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(answer.body),
    });
    response.end(answer.body);
  });
});
server.keepAliveTimeout = 600_000;
server.listen(options.port, "127.0.0.1", () => process.stdout.write("ready\n"));
