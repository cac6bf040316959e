// channels.<id>: the keys of every channel, independent of its adapter. All other keys of the block belong
// to the adapter.

import * as z from "zod";
import { duration, name, pattern, span } from "./values.ts";

const cap = z.strictObject({
  max: z.int().min(0).describe("How many automatic replies at most?"),
  per: span.describe("In which time?"),
});

const notify = z.strictObject({
  channel: name.describe("Which channel carries the notifications? Not a voice channel."),
  to: z.array(z.string().min(1)).min(1).describe("Which addresses receive them?"),
});

/** Longest debounce time in milliseconds, because the customer waits for the answer during it. */
const longestDebounce = 60_000;

const caps = z.strictObject({
  sender: z
    .array(cap)
    .prefault([
      { max: 6, per: "1h" },
      { max: 20, per: "24h" },
    ])
    .describe(
      "How many replies may one person get, over all conversations? An empty list switches the cap off.",
    ),
  conversation: z
    .array(cap)
    .prefault([{ max: 10, per: "10m" }])
    .describe("How many replies may one conversation get?"),
  channel: z
    .array(cap)
    .prefault([{ max: 60, per: "15m" }])
    .describe(
      "How many replies may the whole channel send? Messages beyond it wait: authenticated and known senders go first, each in turn. A tenth is kept for them; others get half of it at once, then one at a time (caps below 10 are not shared out).",
    ),
});

/** The core's keys of a channel block, in the order of the reference. Missing keys may have other
 *  defaults for some kinds of channel: see `Traits.defaults`. */
export const coreChannel = z.object({
  adapter: z
    .string()
    .min(1)
    .describe(
      'Which adapter speaks here? Built in: "email", "sms", "voice"; else a package or a "./path", found from this file.',
    ),
  agent: name.describe("Which of the agents above answers?"),
  enabled: z
    .boolean()
    .default(true)
    .describe("Does the channel run? false: nothing is read and nothing is sent."),
  opening: z
    .enum(["start", "create"])
    .default("start")
    .describe(
      "How is a conversation opened? start: the start call; create: user and conversation, for platforms whose start would message the person.",
    ),
  max_age: span
    .prefault("72h")
    .describe("How old may a message be and still be answered? Older ones are stored and listed."),
  allow: z.array(pattern).prefault([]).describe("Who may write? Empty: everybody."),
  deny: z.array(pattern).prefault([]).describe("Who is never answered? Wins over allow."),
  caps: caps.prefault({}).describe("How many automatic replies are allowed before a loop is assumed?"),
  cap_text: z
    .string()
    .max(320)
    .optional()
    .describe(
      'What is a person told, at most once an hour, whose messages are held by a cap? "": nothing. Short codes are never told. Default: nothing, on SMS channels a sentence in English.',
    ),
  on_unknown: z
    .enum(["hold", "resend", "drop"])
    .default("hold")
    .describe(
      "What happens to a reply that may or may not have gone out? hold: a human decides; RESEND MAY REACH THE PERSON TWICE; DROP MAY REACH NOBODY.",
    ),
  unknown_window: duration.prefault("15m").describe("How long is looked for it before that policy applies?"),
  absent_after: span
    .optional()
    .describe(
      "How long after an unanswered call does a question that the platform does not list count as not asked, so that it is asked again? Default: 5s for calls, else platform.absent_after.",
    ),
  on_permanent_failure: z
    .enum(["continue", "block"])
    .default("continue")
    .describe(
      "What happens to the later replies of a conversation when one of them fails permanently? continue: they are sent; block: they wait for an operator (outbox).",
    ),
  on_new_message: z
    .enum(["send", "drop"])
    .optional()
    .describe(
      "What happens to a reply that waits for its delay when the customer sends another message? A DROPPED REPLY IS NOT SENT LATER. Default: drop on channels with debounce, else send.",
    ),
  debounce: duration
    .refine((ms) => ms <= longestDebounce, "must be at most 60s")
    .prefault("0s")
    .describe(
      "How long after a message do we wait for more of the same customer, to answer them together? 0s: not at all.",
    ),
  notify: notify
    .optional()
    .describe(
      "Who is notified of messages that are not for the agent, such as a voicemail? Default: they are held (inbox list).",
    ),
  rate: z
    .strictObject({
      messages: z.int().min(1).max(1000).describe("How many messages at most, from one address of ours?"),
      per: span.describe("In which time?"),
    })
    .optional()
    .describe(
      "How fast may this channel send? Replies wait for their turn, in order. Default: as fast as the provider takes them.",
    ),
  concurrency: z
    .int()
    .min(1)
    .max(1024)
    .default(32)
    .describe(
      "How many conversations of this channel are worked at the same time? Sending also waits for a free connection.",
    ),
});

export const channels = z.record(name, coreChannel);
