// The last check of `init`: sends a mail to the mailbox itself, waits until the adapter reads it, and checks that
// the daemon would not answer it. Nothing in the mailbox is marked or moved.

import { type Adapter, type Reply, sendKey, threadToken } from "bridgehead/contract";
import { newToken, systemClock } from "../../ops/clock.ts";
import type { Answers } from "./answers.ts";
import { createMailAdapter, mailBlock, rejected, type Verified, type Verifying } from "./verify.ts";

/** Resolves with the seconds that the mail took. `responder` receives a test notification first; null for none. */
export async function roundTrip(given: Answers, responder: string | null, io: Verifying): Promise<Verified<number>> {
  const { signal, timing } = io;
  const { address } = given;
  if (address === undefined) throw new Error("composing the test mail: the address is missing");
  const token = newToken(12);
  const subject = `Bridgehead test ${token}`;
  const { adapter, found } = await openTestMailbox(given, subject, io);
  const ended = new AbortController();
  const within = AbortSignal.any([signal, ended.signal]);
  const reading = adapter.inbound?.run(null, within).catch((error: unknown) => error);
  try {
    const began = systemClock.monotonic();
    const refused = await sendNotice(
      adapter,
      within,
      address,
      subject,
      `This mail checks that ${address} sends and receives. It needs no answer.`,
    );
    if (refused !== null)
      return rejected(
        `the test mail to ${address} was not sent: ${refused}`,
        "check what the provider allows this account to send",
        "servers",
      );
    const late = systemClock.sleep(timing.commands.initRoundTrip, within).then(() => "late" as const);
    const code = await Promise.race([found, late]);
    signal.throwIfAborted();
    if (code === "late") {
      const remedy = `look for "${subject}" in the folder for spam of ${address}, and add a filter that keeps it in INBOX`;
      return rejected("the test mail was sent, but did not arrive in INBOX within two minutes", remedy);
    }
    if (code === null)
      return rejected("the test mail arrived, but was not recognized as our own", "report this as a defect");
    const seconds = (systemClock.monotonic() - began) / 1000;
    if (responder !== null) {
      const text = `You are the first responder for ${address}: you receive a message like this one when a customer needs a human. This is a test; it needs no answer.`;
      const failure = await sendNotice(adapter, within, responder, "Bridgehead: test notification", text);
      if (failure !== null)
        return rejected(
          `the test notification to ${responder} was not sent: ${failure}`,
          "check the address of the responder",
        );
    }
    return { ok: true, value: seconds };
  } finally {
    ended.abort();
    await reading;
    await adapter.close?.(AbortSignal.abort());
  }
}

/** Creates the adapter. `found` resolves with the code of the refusal when the mail with the subject arrives, with null
 *  when it would be answered. */
async function openTestMailbox(given: Answers, subject: string, io: Verifying) {
  const found = Promise.withResolvers<string | null>();
  const block = mailBlock(given) as { readonly imap: object };
  const quiet = {
    mark: { with: "none" },
    sent_folder: "none",
    imap: { ...block.imap, poll: `${io.timing.commands.initLookup}ms` },
  };
  const adapter = await createMailAdapter(
    { ...block, ...quiet },
    (events) => {
      for (const event of events)
        if (event.kind === "message" && event.subject === subject) found.resolve(event.refusal?.code ?? null);
    },
    io,
  );
  return { adapter, found: found.promise };
}

/** Returns why the mail was not sent; null when it was. */
async function sendNotice(
  { outbound }: Adapter,
  signal: AbortSignal,
  to: string,
  subject: string,
  text: string,
): Promise<string | null> {
  const [draft] = outbound?.compose(notice(to, subject, text)) ?? [];
  if (draft === undefined) return "the adapter composed nothing";
  const outcome = await outbound?.send(draft, {
    key: sendKey(newToken(12)),
    number: 1,
    signal,
    crossing: async () => {},
    read: () => Promise.reject(new Error("the test mail has no files")),
  });
  if (outcome?.kind === "sent") return null;
  return outcome && "reason" in outcome ? outcome.reason : "the outcome is unknown";
}

function notice(to: string, subject: string, text: string): Reply {
  return {
    kind: "notice",
    key: sendKey(newToken(20)),
    createdAt: new Date(systemClock.now()),
    to: [{ address: to }],
    cc: [],
    subject,
    text,
    plain: true,
    signature: null,
    introduction: null,
    senderName: null,
    answers: null,
    history: [],
    token: threadToken(newToken(20)),
    hops: 0,
    session: null,
  };
}
