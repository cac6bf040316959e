// Checks of the store: whether it can be used, its integrity and schema, and what waits for an operator in it.

import { existsSync } from "node:fs";
import { access, constants } from "node:fs/promises";
import { openDatabase } from "../../app.ts";
import type { ChannelConfig, Config } from "../../config/index.ts";
import { commandText } from "../../domain/command-text.ts";
import { counted } from "../../domain/duration-text.ts";
import { systemClock } from "../../ops/clock.ts";
import type { Database, Query } from "../../store/driver.ts";
import { refuseCopied } from "../../store/installation.ts";
import { migrations, schemaVersion } from "../../store/migrate.ts";
import { isUnreachable } from "../../store/postgres/unreachable.ts";
import { beforeRemedy, isDamagedStore } from "../../store/sqlite/damaged.ts";
import { channelPauses, everyChannel } from "../../store/tables/pauses.ts";
import type { Io } from "../io.ts";
import type { ProgressBar } from "../store/progress.ts";
import { inThread } from "../store/progress.ts";
import { type Diagnosis, diagnosis } from "./catalogue.ts";
import { countWaiting, findCustomer } from "./rows.ts";

/** Runs `work` on the store when it exists and has this version's schema; else returns null. Rejects when it cannot be
 *  opened. */
export async function useStored<T>(
  config: Pick<Config, "store">,
  { timing }: Pick<Io, "timing">,
  work: (db: Database) => Promise<T>,
): Promise<T | null> {
  const { store } = config;
  if (store.kind === "sqlite" && !existsSync(store.file)) return null;
  const db = await openDatabase(config, systemClock, timing);
  try {
    return (await schemaVersion(db)) === migrations.length ? await work(db) : null;
  } finally {
    await db.close();
  }
}

/** Checks that the store can be opened and written, its pages, references and digests (SQLite), and its schema. Reads
 *  the whole SQLite file. */
export async function storeProblems(
  config: Config,
  progress: Pick<ProgressBar, "part">,
  { timing }: Pick<Io, "timing">,
): Promise<Diagnosis[]> {
  const { store } = config;
  const place = store.kind === "sqlite" ? store.file : "store";
  try {
    if (store.kind === "sqlite") {
      if (store.file === ":memory:") return [];
      // The daemon creates it, with its folder; the check of the configuration reports where it cannot.
      if (!existsSync(store.file)) return [];
      await access(store.file, constants.R_OK | constants.W_OK);
      const { problems } = await inThread("verifyStore", [store.file], progress);
      if (problems.length > 0) return [damaged(place, problems.join("; "), config.file)];
    }
    const db = await openDatabase(config, systemClock, timing);
    try {
      const schema = await schemaVersion(db);
      if (schema === migrations.length) await db.read((q) => refuseCopied(q, timing.commands.copying));
      return schemaProblems(place, schema, config.file);
    } finally {
      await db.close();
    }
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    const [problem = "", own] = message.split(beforeRemedy);
    if (isDamagedStore(error)) return [damaged(place, problem, config.file)];
    if (own !== undefined) return [diagnosis("store-unusable", place, problem, own)];
    const remedy =
      isUnreachable(error) || code === "ECONNREFUSED"
        ? "start the database server, or correct the key store"
        : `run this as the daemon's user: sudo -u bridgehead ${commandText("doctor", config.file)}`;
    return [diagnosis("store-unusable", place, `the store cannot be used: ${message || code}`, remedy)];
  }
}

/** Checks the file of the embedded platform. Reads the whole file. */
export async function platformProblems({ file, platform: { embedded } }: Config): Promise<Diagnosis[]> {
  const database = embedded?.database ?? ":memory:";
  if (database === ":memory:" || !existsSync(database)) return [];
  const { platformFileProblem } = await import("../../platform/index.ts");
  const found = platformFileProblem(database);
  if (found === null) return [];
  if (found.kind === "damaged") return [damaged(database, found.message, file)];
  return [diagnosis(`store-${found.kind}`, database, `the embedded platform: ${found.message}`, found.remedy)];
}

const damaged = (place: string, problem: string, file: string): Diagnosis =>
  diagnosis("store-damaged", place, problem, `sudo systemctl stop bridgehead; ${commandText("restore BACKUP", file)}`);

function schemaProblems(place: string, schema: number, file: string): Diagnosis[] {
  const known = migrations.length;
  if (schema > known) {
    const cause = `the store has schema ${schema}, this version knows up to ${known}`;
    return [diagnosis("store-newer", place, cause, "run the newer Bridgehead that wrote it, or restore a backup")];
  }
  if (schema === known || schema === 0) return [];
  const cause = `the store has schema ${schema} of ${known}`;
  return [diagnosis("store-outdated", place, cause, `sudo systemctl stop bridgehead; ${commandText("migrate", file)}`)];
}

/** Reports what waits for an operator, and own addresses among the customers. */
export async function contentProblems(config: Config, io: Pick<Io, "timing">): Promise<Diagnosis[]> {
  return (await useStored(config, io, (db) => db.read((q) => waiting(q, config))).catch(() => null)) ?? [];
}

async function waiting(q: Query, { file, channels }: Config): Promise<Diagnosis[]> {
  const counts = await countWaiting(q);
  const found = counts.map(({ channel, state, kind, count }) => {
    const list = kind === "messages" ? `inbox list --state ${state}` : "outbox list --state held";
    const items = kind === "messages" ? counted(count, "message") : counted(count, "reply", "replies");
    const cause = `${items} ${state === "held" ? "held" : "failed"}: an operator has to decide`;
    const remedy = commandText(`${list} --channel ${channel}`, file);
    return diagnosis(state === "held" ? "messages-held" : "messages-failed", `channel ${channel}`, cause, remedy);
  });
  const pauses = (await channelPauses(q)).map(({ channel, reason, since, until }) => {
    const end = until === null ? "until it is resumed" : `until ${new Date(until).toISOString()}`;
    const cause = `is paused since ${new Date(since).toISOString()}, ${end}: ${reason}`;
    const [place, argument] = channel === everyChannel ? ["all channels", ""] : [`channel ${channel}`, channel];
    return diagnosis("channel-paused", place, cause, commandText(`resume ${argument}`.trim(), file));
  });
  const own = channels.flatMap((channel) => addressesOf(channel).map((address) => ({ channel, address })));
  const talks: Diagnosis[] = [];
  for (const { channel, address } of own) {
    const row = await findCustomer(q, address);
    if (!row) continue;
    const cause = `the address of channel ${channel.id} is a customer here, in ${counted(row.count, "conversation")}: two agents may answer each other`;
    const remedy = `add ${address} to channels.${row.channel}.deny, then: sudo systemctl reload bridgehead`;
    talks.push(diagnosis("own-mailbox-writes", `channel ${row.channel}`, cause, remedy));
  }
  return [...found, ...pauses, ...talks];
}

/** The addresses that a channel's block names as its own, in canonical form. */
export function addressesOf({ adapter, settings }: Pick<ChannelConfig, "adapter" | "settings">): readonly string[] {
  const block = settings as Readonly<Record<string, unknown>>;
  try {
    const named = adapter.ownAddresses?.(block) ?? [block["address"], block["number"]];
    return named
      .filter((one) => typeof one === "string")
      .flatMap((one) => (adapter.address === undefined ? one : (adapter.address(one) ?? [])));
  } catch {
    return [];
  }
}
