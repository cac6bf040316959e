// What the adapter relies on in its libraries beyond their documented interface. An update that changes it fails here, not
// in a mailbox.

import { readFileSync } from "node:fs";
import type { ImapFlow } from "imapflow";
import PostalMime from "postal-mime";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type ImapConnection, openConnection } from "../../../adapters/email/imap/connection.ts";
import {
  arrivedSince,
  list,
  listWithSource,
  marker,
  openMailbox,
  withKeyword,
} from "../../../adapters/email/imap/mailbox.ts";
import { sources } from "../../../adapters/email/imap/sources.ts";
import { readTree } from "../../../adapters/email/parse/mime.ts";
import { brief, statusOf } from "../../../adapters/email/status.ts";
import { standardTiming as timing } from "../../../adapters/email/timing.ts";
import { mail, type Settings, settingsFor } from "../../support/email/adapter.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

const file = (path: string) =>
  JSON.parse(readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8")) as {
    version: string;
    dependencies: Record<string, string>;
  };

describe("postal-mime", () => {
  it("decodes as before for others in the same thread", async () => {
    const raw = Buffer.from("Content-Type: text/plain\r\n\r\none\r\ntwo\r\n");
    const before = await PostalMime.parse(raw);
    expect(Buffer.from((await readTree(raw)).content).toString()).toBe("one\r\ntwo");
    expect((await PostalMime.parse(raw)).text).toBe(before.text);
    expect(before.text).toBe("one\ntwo\n");
  });

  it("is pinned to the version whose parser is used from inside", () => {
    const wanted = file("package.json").dependencies["postal-mime"];
    expect(wanted).toMatch(/^\d+\.\d+\.\d+$/);
    expect(file("node_modules/postal-mime/package.json").version).toBe(wanted);
  });

  it("gives the tree with bytes, kinds and nesting of every part", async () => {
    const raw = [
      'Content-Type: multipart/mixed; boundary="x"',
      "",
      "--x",
      "Content-Type: text/plain; charset=iso-8859-1",
      "Content-Transfer-Encoding: quoted-printable",
      "",
      "M=FCnchen",
      "--x",
      'Content-Type: application/pdf; name="a.pdf"',
      "Content-Disposition: attachment",
      "Content-Transfer-Encoding: base64",
      "",
      "AAEC",
      "--x--",
      "",
    ].join("\r\n");
    const tree = await readTree(Buffer.from(raw));
    expect(tree.multipart).toBe("mixed");
    expect(tree.children.map(({ mediaType, disposition, fileName }) => [mediaType, disposition, fileName])).toEqual([
      ["text/plain", "", null],
      ["application/pdf", "attachment", "a.pdf"],
    ]);
    expect(Buffer.from(tree.children[0]?.content ?? []).toString("latin1")).toContain("München");
    expect([...(tree.children[1]?.content ?? [])]).toEqual([0, 1, 2]);
  });
});

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("imapflow on a real server", missing, () => {
  let dovecot: Dovecot;
  const open: ImapConnection[] = [];
  beforeAll(async () => {
    dovecot = await startDovecot({ users: ["support", "empty"] });
    for (const n of [1, 2, 3]) await dovecot.deliver("support", mail(n));
  });
  afterEach(() => {
    for (const { client } of open.splice(0)) client.close();
  });
  afterAll(() => dovecot?.dispose());

  async function connect(user = "support", password = "secret"): Promise<ImapFlow> {
    const { imap } = settingsFor(dovecot.port, 1, { imap: { user, password } as Settings["imap"] });
    const options = { imap, timing, maxSource: 1_000_000, tokens: null };
    const connection = await openConnection(options, AbortSignal.timeout(60_000));
    open.push(connection);
    return connection.client;
  }

  it("reads nothing without an open mailbox, and says so", async () => {
    const client = await connect();
    await expect(list(client, 1)).rejects.toThrow("no mailbox is open");
  });

  it("answers a range behind the last mail with that mail, which is left out", async () => {
    const client = await connect();
    await client.mailboxOpen("INBOX");
    expect((await list(client, 1)).map(({ uid }) => uid)).toEqual([1, 2, 3]);
    expect(await arrivedSince(client, 0)).toEqual([1, 2, 3]);
    expect(await list(client, 4)).toEqual([]);
    expect(await listWithSource(client, 4, 1000)).toEqual([]);
    expect(await withKeyword(client, "$None", 4)).toEqual([]);
  });

  it("reads an empty mailbox as empty", async () => {
    const client = await connect("empty");
    await client.mailboxOpen("INBOX");
    expect([await list(client, 1), await arrivedSince(client, 0)]).toEqual([[], []]);
  });

  it("cuts a source at its limit, and leaves \\Seen alone", async () => {
    const client = await connect();
    await client.mailboxOpen("INBOX");
    const listed = await list(client, 1);
    const [first] = await sources(client, listed, 40);
    expect(first?.raw?.length).toBe(40);
    expect((await dovecot.list("support")).flatMap(({ flags }) => flags)).not.toContain("\\Seen");
  });

  it("rejects what a broken line leaves unanswered, in place of an empty result", async () => {
    const client = await connect();
    await client.mailboxOpen("INBOX");
    const [listing, search] = [list(client, 1), arrivedSince(client, 0)];
    client.close();
    await expect(listing).rejects.toThrow();
    await expect(search).rejects.toThrow();
    expect(() => openMailbox(client)).toThrow("no mailbox is open");
  });

  it("adds marks to the flags that are there", async () => {
    const client = await connect();
    await client.mailboxOpen("INBOX");
    await client.messageFlagsAdd("2", ["\\Flagged", "Urgent"], { uid: true });
    const { mark } = settingsFor(dovecot.port, 1);
    const complaints: unknown[] = [];
    const log = {
      debug: () => {},
      info: () => {},
      warn: (fields: object) => complaints.push(fields),
      error: () => {},
    };
    await marker(mark, log)(client, [2], "testmark00");
    await marker(mark, log)(client, [2], "testmark00");
    const flags = (await dovecot.list("support"))[1]?.flags ?? [];
    for (const flag of ["\\Flagged", "Urgent", "$Bridgehead", "$Bridgehead-testmark00"]) expect(flags).toContain(flag);
    expect((await list(client, 2))[0]?.keywords).toEqual(expect.arrayContaining(["$Bridgehead-testmark00", "Urgent"]));
    expect(complaints).toEqual([]);
  });

  it("reports flags that another session sets, and new mail, while it idles", async () => {
    const client = await connect();
    await client.mailboxOpen("INBOX");
    const flags = new Promise<string[]>((resolve) => client.on("flags", (event) => resolve([...(event.flags ?? [])])));
    const exists = new Promise<number>((resolve) => client.on("exists", ({ count }) => resolve(count)));
    void client.idle();
    const other = await connect();
    await other.mailboxOpen("INBOX");
    await other.messageFlagsAdd("1", ["$Bridgehead-elsewhere0"], { uid: true });
    expect(await flags).toContain("$Bridgehead-elsewhere0");
    await dovecot.deliver("support", mail("4"));
    expect(await exists).toBe(4);
  });

  it("recognizes a refused login by its response code", async () => {
    const error = await connect("support", "wrong").catch((reason: unknown) => reason);
    expect(error).toMatchObject({ authenticationFailed: true, serverResponseCode: "AUTHENTICATIONFAILED" });
    expect(statusOf(error, 1)).toMatchObject({ state: "unauthorized", code: "login" });
    expect(brief(error)).not.toContain("wrong");
    expect(brief(error)).toContain("Authentication failed");
    expect(brief(Object.assign(new Error("Command failed"), { responseText: "Over\r\nquota \u001b[31m" }))).toBe(
      "Over quota [31m",
    );
  });

  it("refuses a server that no longer offers STARTTLS", async () => {
    const { imap } = settingsFor(dovecot.port, 1);
    const options = { imap: { ...imap, tls: "starttls" as const }, timing, maxSource: 1000, tokens: null };
    await expect(openConnection(options, AbortSignal.timeout(60_000))).rejects.toThrow();
  });

  it("refuses to connect the same object twice", async () => {
    const client = await connect();
    await expect(client.connect()).rejects.toThrow();
  });
});
