// npm run bench [-- --quick] [-- --only burst,single,cpu,memory,sms,voice,platform,lists,escalations,postgres]: Bridgehead
// against bare scripts, on this machine, now.
// Absolute figures say as much about the machine as about us; the ratios are what is worth comparing. A missed goal is
// a result, so it exits with 0; a mail lost or answered twice is a defect, so it exits with 1.

import { existsSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { burst } from "./burst.ts";
import { syncTime } from "./disk.ts";
import { escalations } from "./escalations.ts";
import { largeStore } from "./large-store.ts";
import { longLists } from "./long-lists.ts";
import { memory } from "./memory.ts";
import { startPhoneRig } from "./phone-rig.ts";
import { postgres } from "./postgres.ts";
import { noTally, printHead, sum } from "./report.ts";
import { startRig, type Tally } from "./rig.ts";
import { servedRates } from "./served-rates.ts";
import { single } from "./single.ts";
import { sms } from "./sms.ts";
import { steady } from "./steady.ts";
import { voice } from "./voice.ts";

const mails = ["burst", "single", "cpu", "memory"];
const names = [...mails, "sms", "voice", "platform", "lists", "escalations", "postgres", "large"];
const { values } = parseArgs({
  options: { quick: { type: "boolean", default: false }, only: { type: "string" } },
});
const wanted = values.only?.split(",") ?? names;
const unknown = wanted.filter((name) => !names.includes(name));

async function bench(quick: boolean): Promise<Tally> {
  process.stdout.write(
    `Node ${process.version}; platform, SMTP and Twilio: stubs in another process; store: SQLite, WAL, durable before each acknowledgement\n` +
      `load ${loadavg()[0]?.toFixed(1)} on ${availableParallelism()} processors; disk: ${syncTime().toFixed(2)} ms a sync\n`,
  );
  const tallies = [noTally];
  if (mails.some((name) => wanted.includes(name))) tallies.push(await benchMails(quick));
  if (wanted.includes("sms") || wanted.includes("voice")) tallies.push(await benchPhones(quick));
  if (wanted.includes("platform")) tallies.push(await benchPlatform(quick));
  if (wanted.includes("lists")) tallies.push(await benchLists(quick));
  if (wanted.includes("escalations")) tallies.push(await benchEscalations(quick));
  if (wanted.includes("large")) await benchLarge(quick);
  if (wanted.includes("postgres")) tallies.push(await benchPostgres(quick));
  return sum(tallies);
}

async function benchPostgres(quick: boolean): Promise<Tally> {
  const rig = await startRig();
  process.stdout.write("\nNodes on PostgreSQL (fsync). bare: SQLite for one node; one node for several.\n");
  printHead();
  try {
    return await postgres(rig, quick ? 1 : 3, quick ? 200 : 1000);
  } finally {
    await rig.close();
  }
}

async function benchLarge(quick: boolean): Promise<void> {
  process.stdout.write("\nA large store. bare: an empty one, the same transactions alternately.\n");
  printHead();
  await largeStore(quick ? 100_000 : 1_000_000, quick ? 40 : 100);
}

async function benchEscalations(quick: boolean): Promise<Tally> {
  process.stdout.write(
    "\nEscalations that nobody takes. bare: ourselves with a hundred of them; ours: with many.\n",
  );
  printHead();
  return escalations(quick ? 2000 : 10_000, quick ? 1 : 3);
}

async function benchPlatform(quick: boolean): Promise<Tally> {
  process.stdout.write(
    "\nThe embedded platform. bare: node:http, which answers the same bytes and knows nothing; or commits a row for each POST.\n",
  );
  printHead();
  return servedRates(quick ? 1 : 3, quick ? 500 : 2000);
}

async function benchLists(quick: boolean): Promise<Tally> {
  process.stdout.write(
    "\nLists and statistics of the embedded platform. bare: itself with a thousand messages; ours: with many.\n",
  );
  printHead();
  return longLists(quick ? 100_000 : 1_000_000, quick ? 100 : 300);
}

async function benchMails(quick: boolean): Promise<Tally> {
  const rig = await startRig();
  process.stdout.write(
    `\nMails (IMAP: ${rig.imap}). bare: parse, ask and answer one after the other, nothing stored. The goals are against it.\n`,
  );
  printHead();
  const tallies: Tally[] = [];
  try {
    if (wanted.includes("burst")) tallies.push(await burst(rig, quick ? 1 : 3, quick ? 500 : 2000));
    if (wanted.includes("single")) tallies.push(await single(rig, quick ? 5 : 40));
    if (wanted.includes("cpu")) tallies.push(await steady(rig, quick ? 1 : 4));
    if (wanted.includes("memory")) await memory(rig, quick ? 3000 : 10_000);
  } finally {
    await rig.close();
  }
  return sum([noTally, ...tallies]);
}

async function benchPhones(quick: boolean): Promise<Tally> {
  const rig = await startPhoneRig();
  process.stdout.write(
    "\nTexts and calls. bare: node:http and ws, the same requests, nothing stored. The goals are against it.\n",
  );
  printHead();
  const tallies: Tally[] = [];
  try {
    if (wanted.includes("sms")) tallies.push(await sms(rig, quick ? 1 : 3, quick ? 300 : 2000));
    if (wanted.includes("voice")) tallies.push(await voice(rig, quick));
  } finally {
    rig.close();
  }
  return sum([noTally, ...tallies]);
}

// What was started is ended by listeners of `exit`, which a signal alone would skip.
for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => process.exit(130));

if (unknown.length > 0) {
  process.stderr.write(`--only: ${unknown.join(", ")} is none of ${names.join(", ")}\n`);
  process.exitCode = 2;
} else if (existsSync("/proc/self/stat")) {
  const { lost, duplicated } = await bench(values.quick);
  process.exitCode = lost + duplicated > 0 ? 1 : 0;
} else {
  process.stderr.write("the bench reads /proc, so it needs Linux\n");
  process.exitCode = 2;
}
