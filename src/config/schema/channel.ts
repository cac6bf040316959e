// channels.<id>: the keys of every channel, independent of its adapter. All other keys of the block belong
// to the adapter.

import * as z from "zod";
import { duration, name, pattern, span } from "./values.ts";

const cap = z.strictObject({
  max: z.int().min(0).describe("How many automatic replies at most?"),
  per: span.describe("In which interval?"),
});

const limit = cap.extend({ max: z.int().min(1).describe("How many at most?") });

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
      "How many replies may one sender cause, and one address receive as Reply-To of several senders, over all conversations? Five times as many for all tags of an address together (care+1@, care+2@). An empty list removes the cap.",
    ),
  conversation: z
    .array(cap)
    .prefault([{ max: 10, per: "10m" }])
    .describe("How many replies may one conversation receive?"),
  channel: z
    .array(cap)
    .prefault([{ max: 60, per: "15m" }])
    .describe(
      "How many replies may the whole channel send? Further messages wait; authenticated and known senders have priority, in turn. A tenth of the cap is reserved for them. Other senders may use half of the cap at once, then one reply at a time (caps below 10 are not divided).",
    ),
});

/** The core's keys of a channel block, in the order of the reference. Missing keys may have other
 *  defaults for some kinds of channel: see `Traits.defaults`. */
export const coreChannel = z.object({
  adapter: z
    .string()
    .min(1)
    .describe(
      'Which adapter implements this channel? Built in: "email", "sms", "voice"; otherwise a package or a "./path", relative to this file.',
    ),
  agent: name.describe("Which of the agents above answers?"),
  enabled: z.boolean().default(true).describe("Is the channel enabled? false: it neither receives nor sends."),
  mode: z
    .enum(["live", "shadow"])
    .default("live")
    .describe(
      "Are replies sent? shadow: messages are received and answered by the agent, but no reply is sent: it is held as a draft (outbox list --state held), and an operator releases or drops it. Responders are still notified. Calls are not taken by the agent. Drafts that are held stay held after a change to live.",
    ),
  opening: z
    .enum(["start", "create"])
    .default("start")
    .describe(
      "Which request opens a conversation? start: conversation start; create: user and conversation, for platforms that message the customer at conversation start.",
    ),
  max_age: span
    .prefault("72h")
    .describe(
      "How old may a message be to be answered? Older messages are stored and listed (inbox list). Messages and replies that wait longer than this, for example on a paused channel, are held.",
    ),
  allow: z.array(pattern).prefault([]).describe("Which senders are accepted? Empty: all."),
  deny: z.array(pattern).prefault([]).describe("Which senders are never answered? Takes precedence over allow."),
  caps: caps.prefault({}).describe("How many automatic replies are allowed? More indicate a loop."),
  cap_text: z
    .string()
    .max(320)
    .optional()
    .describe(
      'Which notice does a sender receive, at most once an hour, whose messages are held by a cap? "": none. Short codes never receive one. Default: none; on SMS channels a sentence in English.',
    ),
  pause_on: z
    .strictObject({
      loops: z
        .array(limit)
        .prefault([{ max: 10, per: "1h" }])
        .describe(
          "How many senders may run into a loop refusal, or into the cap of a sender or conversation? One sender alone is stopped by the caps.",
        ),
      replies: z
        .array(limit)
        .prefault([])
        .describe(
          "How many messages may be answered? Unlike caps.channel, which lets messages wait until there is room again. Choose a number that only a malfunction reaches: the backlog of an outage counts, too.",
        ),
    })
    .prefault({})
    .describe(
      "Which limits pause the channel when they are exceeded? Responders are notified, and nothing is asked or sent until `bridgehead resume`. Empty lists: none.",
    ),
  on_unknown: z
    .enum(["hold", "resend", "drop"])
    .default("hold")
    .describe(
      "What happens to a reply that may have been sent, when its outcome stays unknown? hold: an operator decides (outbox); RESEND MAY DELIVER THE REPLY TWICE; DROP MAY LOSE THE REPLY.",
    ),
  unknown_window: duration.prefault("15m").describe("How long do we try to find out before `on_unknown` applies?"),
  absent_after: span
    .optional()
    .describe(
      "How long after a request without a response does a question that the platform does not list count as absent? Absent questions are asked again. Default: 5s for calls, otherwise platform.absent_after.",
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
      messages: z.int().min(1).max(1000).describe("How many messages at most, per sender address of the channel?"),
      per: span.describe("In which interval?"),
    })
    .optional()
    .describe(
      "How fast may this channel send? Replies are queued in order. Default: as fast as the provider accepts them.",
    ),
  concurrency: z
    .int()
    .min(1)
    .max(1024)
    .default(64)
    .describe(
      "How many conversations of this channel are processed concurrently? Sending also waits for a free connection.",
    ),
});

export const channels = z.record(name, coreChannel);
