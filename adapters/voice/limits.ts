// The configuration keys of a voice channel for durations, repeat counts and fallbacks.

import { units } from "bridgehead/contract";
import * as z from "zod";

const { duration } = units(z);

export const fillers = z
  .strictObject({
    first: duration.prefault("1200ms").describe("After how long without a reply is the first filler spoken?"),
    second: duration.prefault("6s").describe("After how long the second?"),
    every: duration.prefault("8s").describe("How often after that?"),
  })
  .prefault({});

export const giveUp = z
  .strictObject({
    after: duration.prefault("25s").describe("How long do we wait for a reply?"),
    to: z
      .enum(["human", "end"])
      .prefault("human")
      .describe("What happens then? `human`: hand_over, if configured; `end`: apologize and hang up."),
  })
  .prefault({});

export const silence = z
  .strictObject({
    after: duration.prefault("10s").describe("How long may the caller be silent after the agent has spoken?"),
    asks: z
      .int()
      .min(0)
      .max(10)
      .prefault(2)
      .describe("How often is the caller asked whether they are still there?"),
  })
  .prefault({});

export const resume = z
  .strictObject({
    times: z
      .int()
      .min(0)
      .max(10)
      .prefault(3)
      .describe("How often is a call resumed after its connection was lost?"),
  })
  .prefault({});

export const digits = z
  .strictObject({
    human: z
      .string()
      .regex(/^[0-9*#]?$/)
      .prefault("0")
      .describe('Which key transfers to a human? "": none.'),
    as_message: z
      .boolean()
      .prefault(true)
      .describe("Are pressed keys (DTMF) sent to the agent as a message?"),
    pause: duration.prefault("2500ms").describe("Which pause ends a sequence of keys? # always does."),
  })
  .prefault({});

const target = z
  .string()
  .regex(/^(\+[1-9]\d{4,14}|sip:[^\s<>"&]+)$/, "expected a number such as +15005550006, or a sip: address");

export const handOver = z
  .strictObject({
    dial: z
      .array(target)
      .min(1)
      .max(10)
      .optional()
      .describe("Which numbers or sip: addresses are called, all at once?"),
    enqueue: z
      .strictObject({
        workflow_sid: z.string().min(1).describe("Which TaskRouter workflow receives the call?"),
        attributes: z
          .record(z.string(), z.string())
          .prefault({})
          .describe("Which further attributes does the task have?"),
      })
      .optional()
      .describe("Or: which queue receives the call?"),
    redirect: z.url().optional().describe("Or: which URL returns the next TwiML, such as a Studio flow?"),
    timeout: duration.prefault("25s").describe("How long does it ring?"),
    caller_id: target.optional().describe("Which caller id is shown? Default: the caller's number."),
    no_answer: z
      .enum(["voicemail", "agent", "end"])
      .prefault("voicemail")
      .describe(
        "What happens when the transfer is not answered? `agent`: the agent continues. jambonz cannot record: responders are notified of a missed call instead. retell: responders are notified if its webhook (api_key) is configured; nothing else is possible.",
      ),
    voicemail_length: duration.prefault("2m").describe("How long may a voicemail be?"),
  })
  .refine(
    (over) => [over.dial, over.enqueue, over.redirect].filter((way) => way !== undefined).length === 1,
    {
      error: "give one of dial, enqueue and redirect",
    },
  )
  .describe("How is a call transferred to a human?");
