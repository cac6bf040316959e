// The configuration keys of a voice channel for durations, repeat counts and fallbacks.

import { units } from "bridgehead/contract";
import * as z from "zod";

const { duration } = units(z);

export const fillers = z
  .strictObject({
    first: duration.prefault("1200ms").describe("After how long without an answer is the first thing said?"),
    second: duration.prefault("6s").describe("When is the second?"),
    every: duration.prefault("8s").describe("And how often after that?"),
  })
  .prefault({});

export const giveUp = z
  .strictObject({
    after: duration.prefault("25s").describe("How long is an answer waited for?"),
    to: z
      .enum(["human", "end"])
      .prefault("human")
      .describe("Where does that lead? `human`: hand_over, if there is one; `end`: apologize and hang up."),
  })
  .prefault({});

export const silence = z
  .strictObject({
    after: duration.prefault("10s").describe("How long may the caller say nothing after we have spoken?"),
    asks: z.int().min(0).max(10).prefault(2).describe("How often is asked whether anybody is there?"),
  })
  .prefault({});

export const resume = z
  .strictObject({
    times: z
      .int()
      .min(0)
      .max(10)
      .prefault(3)
      .describe("How often is a call whose line to us was cut taken up again?"),
  })
  .prefault({});

export const digits = z
  .strictObject({
    human: z
      .string()
      .regex(/^[0-9*#]?$/)
      .prefault("0")
      .describe('Which single key reaches a human? "" for none.'),
    as_message: z.boolean().prefault(true).describe("Is the agent told the keys that were pressed?"),
    pause: duration.prefault("2500ms").describe("Which pause ends a row of keys? A # always does."),
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
      .describe("Which numbers or sip: addresses ring, all at once?"),
    enqueue: z
      .strictObject({
        workflow_sid: z.string().min(1).describe("Which TaskRouter workflow gets the call?"),
        attributes: z.record(z.string(), z.string()).prefault({}).describe("What else is the task told?"),
      })
      .optional()
      .describe("Or which queue?"),
    redirect: z.url().optional().describe("Or which address says what comes next, such as a Studio flow's?"),
    timeout: duration.prefault("25s").describe("How long does it ring?"),
    caller_id: target.optional().describe("Which number do they see? Default: the caller's."),
    no_answer: z
      .enum(["voicemail", "agent", "end"])
      .prefault("voicemail")
      .describe(
        "What if nobody answers? `agent`: back to the agent. jambonz cannot record: people are told of a missed call instead. retell: they are told if its webhook (api_key) is set up, and no more can be done.",
      ),
    voicemail_length: duration.prefault("2m").describe("How long may a message be?"),
  })
  .refine(
    (over) => [over.dial, over.enqueue, over.redirect].filter((way) => way !== undefined).length === 1,
    {
      error: "give one of dial, enqueue and redirect",
    },
  )
  .describe("How does a human take over?");
