// Power-cut replay of the whole daemon: it receives texts, asks and answers them, while its file operations and what it sends are
// recorded. In every state of the disk the store has each text that was acknowledged to the provider, and the attempt of each
// question and answer that has left the process.

import { createInterface } from "node:readline";
import type Sqlite from "better-sqlite3";
import { expect, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { until } from "../support/process/mail/scenario.ts";
import { openSmsSetup, type SmsSetup, startSmsServers } from "../support/process/sms/servers.ts";
import {
  type Evidence,
  type FileOperation,
  hasTables,
  numberOf,
  type Output,
  replay,
  report,
  traceFiles,
} from "../support/store/power-cut.ts";

const missing = await need("strace", "/usr/bin/strace");
const main = new URL("../../src/main.ts", import.meta.url).pathname;
const [people, textsEach] = [5, 6];
const texts = people * textsEach;

/** Numbers of texts, of openings of conversations, of questions and of answers. */
type Counts = Record<"events" | "opened" | "asked" | "sent", number>;
const none: Counts = { events: 0, opened: 0, asked: 0, sent: 0 };

/** How they begin on their socket: the response to a webhook, and requests to the platform and the provider. */
const beginnings: readonly (readonly [what: keyof Counts, beginning: RegExp])[] = [
  ["events", /^HTTP\/1\.1 2/],
  ["opened", /^POST \/external\/conversations\/start /],
  ["asked", /^POST \/external\/conversations\/[^/ ]+\/messages /],
  ["sent", /^POST \S+\/Messages\.json /],
];

/** What the daemon has sent: responses to webhooks, questions, and texts. */
class Sent implements Evidence<Counts> {
  readonly promised: Counts = { ...none };

  note({ to, text }: Output): boolean {
    if (to !== "socket") return false;
    const what = beginnings.find(([, beginning]) => beginning.test(text))?.[0];
    if (what !== undefined) this.promised[what] += 1;
    return what !== undefined;
  }

  read(db: Sqlite.Database): Counts {
    if (!hasTables(db, "events", "attempts")) return none;
    const attempts = "SELECT count(DISTINCT subject) FROM attempts JOIN";
    const conversations = "SELECT count(DISTINCT conversation) FROM attempts JOIN";
    return {
      events: numberOf(db, "SELECT count(*) FROM events WHERE kind = 'message'"),
      opened: numberOf(db, `${conversations} turns ON turns.id = subject`),
      asked: numberOf(db, `${attempts} turns ON turns.id = subject`),
      sent: numberOf(db, `${attempts} drafts ON drafts.id = subject`),
    };
  }

  broken(kept: Counts): ReturnType<Evidence<Counts>["broken"]> {
    const what = beginnings.map(([name]) => name).find((name) => kept[name] < this.promised[name]);
    return what === undefined ? null : { kind: "lost", what: `${what}: ${kept[what]} of ${this.promised[what]}` };
  }
}

/** Starts the daemon with an empty store, lets it answer the texts, and stops it. */
async function record(setup: SmsSetup): Promise<FileOperation[]> {
  return traceFiles(setup.store, [process.execPath, "--conditions=source", main, "run", "--config", setup.config], {
    env: setup.env,
    async during(pid, words) {
      const lines = createInterface({ input: words });
      let isReady = false;
      lines.on("line", (line) => (isReady ||= line.includes('"message":"ready"')));
      await until("the daemon is ready", () => isReady);
      const receive = async (who: number, n: number) => {
        const { tries } = await setup.api.receive({ from: `+1202555${7000 + who}`, body: `Text ${n}`, media: [] });
        expect(tries.map(({ status }) => status)).toEqual([200]);
      };
      for (let n = 0; n < textsEach; n += 1) {
        const received: Promise<void>[] = [];
        for (let who = 0; who < people; who += 1) {
          received.push(receive(who, n));
          if (n % 2 === 0) await received[who]; // one by one and all at once, in turn
        }
        await Promise.all(received);
      }
      await until("every text is answered", () => setup.api.sent.length === texts);
      process.kill(pid, "SIGTERM");
    },
  });
}

describeReal("a power cut of the daemon", missing, () => {
  it("takes no acknowledged text, and no attempt of what was sent", { timeout: 1_200_000 }, async () => {
    const servers = await startSmsServers();
    const setup = await openSmsSetup(servers, { fresh: true });
    try {
      setup.api.progress([]); // each webhook is a text
      const operations = await record(setup);
      const sent = new Sent();
      const found = replay(operations, sent);
      report("the daemon, which obeys every sync", found);
      expect(found).toMatchObject({ lost: 0, corrupt: 0, first: "" });
      expect(sent.promised).toEqual({ events: texts, asked: texts, opened: people, sent: texts });
      expect(found.states).toBeGreaterThanOrEqual(3_000);

      const forgetful = new Sent();
      const lost = replay(operations, forgetful, (call) => call !== "fdatasync", 10);
      report("the daemon, which obeys only SQLite's", lost);
      expect(lost.lost).toBeGreaterThanOrEqual(10);
    } finally {
      await setup.close();
      await servers.close();
    }
  });
});
