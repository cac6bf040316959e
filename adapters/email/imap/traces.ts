// Finds traces of earlier work in the mailbox: marks on messages, and our responses in the Sent folder. A current store knows
// the messages with traces. Traces on messages that the store does not know show that the store was restored or lost, or that
// another daemon reads the same mailbox. The core holds such messages instead of answering them again.

import type { Channel, ChannelIdentity, HandledBefore } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { Identity } from "../parse/headers.ts";
import { brief } from "../status.ts";
import { keywordOf, type Listed, listOnly, openMailbox, withKeyword } from "./mailbox.ts";
import type { SentFolder } from "./sent.ts";

export interface TracesOptions {
  readonly channel: Pick<Channel, "log" | "clock" | "warn">;
  readonly self: Identity;
  /** The configured keyword. */
  readonly keyword: string;
  readonly sent: SentFolder;
  /** Timeout in ms for reading the Sent folder. The reader waits for it, and the watchdog must not end
   *  the connection during that time. */
  readonly patience: number;
  /** In ms. Marks on messages that arrived earlier do not show that another daemon works on the mailbox now. */
  readonly recent: number;
  readonly identity: ChannelIdentity;
  /** UID of the last message that was present when the process first connected. Up to it, messages are compared with the
   *  Sent folder; later ones cannot predate the store. */
  readonly backlog: number;
  /** The UID from which on marks of another installation mean that it works on the mailbox now. */
  readonly watchFrom: number;
}

const other = "other-installation";
/** A message that was marked before it was read may have been moved here. This many within `recent` are
 *  not explained by moves. */
const severalMoved = 3;

/** The traces in one mailbox; one per connection. */
export class Traces {
  readonly backlog: number;
  readonly #options: TracesOptions;
  readonly #seen = new Set<string>();
  /** UIDs that carried the mark of another installation when they were read. */
  readonly #markedBefore = new Set<number>();
  /** True when a message that has arrived since the start carried our own mark. */
  #isCopied = false;
  #answers: { readonly since: number; readonly ids: Promise<ReadonlySet<string>> } | null = null;

  constructor(options: TracesOptions) {
    this.#options = options;
    this.backlog = options.backlog;
  }

  /** Returns why the message counts as handled although the store does not know it, or null. Never
   *  rejects: when the Sent folder cannot be read, only marks count. `messageIds`: the ids under which a
   *  response would cite the message. */
  async handledBefore(mail: Listed, messageIds: readonly string[]): Promise<HandledBefore | null> {
    const { backlog, channel } = this.#options;
    const marked = this.#byMark(mail);
    if (marked !== null || mail.uid > backlog) return marked;
    const since = mail.arrived ?? channel.clock.now();
    if (this.#answers === null || since < this.#answers.since) this.#answers = { since, ids: this.#readAnswers(since) };
    const ids = await this.#answers.ids;
    if (!messageIds.some((id) => ids.has(id))) return null;
    const reason = "an answer of ours in the Sent folder cites it, and the store does not know it";
    return { by: "self", cited: true, reason };
  }

  /** Records keywords that another session has just set. */
  noteKeywords(keywords: Iterable<string>): void {
    for (const mark of marksOn([...keywords], this.#options.keyword)) this.#seen.add(mark);
  }

  /** Searches for other daemons on the mailbox and reports them to the responders as well, because customers get two answers, or
   *  clears the report. Mail is not held for that: each daemon would leave it to the other. Called after each poll. */
  async lookForOthers(client: ImapFlow): Promise<void> {
    const { channel, identity, keyword, recent, watchFrom } = this.#options;
    this.noteKeywords(openMailbox(client).flags ?? []);
    let [late, early] = [0, 0];
    for (const mark of this.#seen) {
      const owner = mark === "" ? "self" : identity.ownerOf(mark);
      if (owner !== "foreign" && owner !== "earlier") continue;
      const uids = await withKeyword(client, keywordOf(keyword, mark), watchFrom);
      const fresh = (await listOnly(client, uids)).filter(
        ({ arrived }) => (arrived ?? 0) > channel.clock.now() - recent,
      );
      const before = fresh.filter(({ uid }) => this.#markedBefore.has(uid)).length;
      early += before;
      late += fresh.length - before;
    }
    const copied = this.#isCopied ? copySentence : null;
    const sentence = late > 0 || early >= severalMoved ? otherSentence(late + early) : copied;
    if (sentence !== null || this.#markedBefore.size === 0) channel.warn(other, sentence, { escalates: true });
  }

  /** Returns the Message-IDs that our responses in the Sent folder since that time cite. */
  async #readAnswers(since: number): Promise<ReadonlySet<string>> {
    const { channel, patience, self, sent } = this.#options;
    const over = new AbortController();
    const late = channel.clock.sleep(patience, over.signal).then(() => {
      throw new Error(`the Sent folder does not answer within ${patience} ms`);
    });
    try {
      return await Promise.race([sent.answered(since, self), late]);
    } catch (error) {
      channel.log.warn({ reason: brief(error) }, "sent folder unreadable: earlier answers are not recognized");
      return new Set();
    } finally {
      late.catch(() => {});
      over.abort();
    }
  }

  #byMark(mail: Listed): HandledBefore | null {
    const { backlog, identity, keyword } = this.#options;
    const marks = marksOn(mail.keywords, keyword);
    for (const mark of marks) this.#seen.add(mark);
    const owners = marks.map((mark) => identity.ownerOf(mark));
    if (owners.includes("self")) {
      this.#isCopied ||= mail.uid > backlog;
      const reason = "it carries the mark of this store, which does not know it: the store is older";
      return { by: "self", reason };
    }
    if (owners.includes("earlier"))
      return { by: "self", reason: "it carries the mark of an earlier state of this store" };
    if (!owners.includes("foreign")) return null;
    this.#markedBefore.add(mail.uid);
    const reason = "it carries the mark of another installation, or of a store that was lost";
    return { by: "other", reason };
  }
}

const otherSentence = (count: number): string =>
  `another daemon with its own store works on this mailbox: it has marked ${count} of the messages of the last hour, and customers get answers of both; it reports the same: stop one of the two, or pause the channel there`;

const copySentence =
  "another daemon on a copy of this store works on this mailbox: it has marked messages that this store does not know; stop one of the two, or pause the channel there";

/** Returns the marks in the keywords of a message: the text after the dash, or an empty string for the
 *  keyword without a mark. */
function marksOn(keywords: readonly string[], keyword: string): string[] {
  const prefix = keywordOf(keyword, "").toLowerCase();
  const lower = keywords.map((one) => one.toLowerCase());
  const marks = lower.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
  return marks.length === 0 && lower.includes(keyword.toLowerCase()) ? [""] : marks;
}
