// All durations of the daemon, in milliseconds, by area. A list of durations is a schedule: the first delay follows the first
// failure, the second the next one, and the last one repeats. The composition roots (commands/run.ts and app.ts) pass the
// table down; a test overrides a duration instead of waiting for it. The durations of an adapter are in its own table
// (adapters/*/timing.ts), because an adapter is a package of its own; overrides of it are here, under its name, and reach it
// through its channel. Not in these tables: durations that the configuration defines, defaults of the client library (client/),
// which the daemon overrides, and the programs for trying out (platform/, sandbox/). test/architecture enforces this.

import { type DurationTable, day, hour, minute, second } from "bridgehead/contract";
import { messages } from "./timing/messages.ts";

const adapters: Readonly<Record<string, DurationTable>> = {};

const table = {
  ...messages,
  /** Overrides of the tables of the adapters, by the name of the adapter. */
  adapters,
  scheduler: {
    /** Interval of the sweeps that find due work without a hint. */
    sweep: second,
    /** Work that becomes due within this time gets a timer; the sweep finds later work soon enough. */
    timerHorizon: 4 * second,
    /** Timer resolution: due work is delayed by at most this much, to be processed together. */
    timerGrain: 20,
    /** Interval at which the lease deadlines of running work are checked. */
    deadlineCheck: 250,
    /** A claim of unknown outcome is released this long after its lease. */
    claimInDoubt: 30 * second,
    /** Backoff of a transition that cannot be written: the first pause, doubled up to the longest. */
    writeRetry: 50,
    writeRetryLongest: 2 * second,
  },
  sqlite: {
    /** Longest wait for the lock of another process, such as a command. */
    busy: 5 * second,
    /** The pause between two tries where SQLite itself does not wait for that lock. */
    busyRetry: 20,
    /** The store's clock follows a system clock that goes back by more than this; else it waits for it. */
    clockStep: 10 * minute,
    /** A commit takes no further transactions after this time, because it blocks the thread. */
    commitBatch: 10,
    /** After waiting this long for a running sync, a commit waits for nothing else. */
    commitGather: 3,
    /** Commits are reported for this long before other work of the thread runs. */
    reportSlice: 1,
    /** Longest wait of an outcome of a live call, or of a poll, for a transaction whose commit it joins. */
    commitJoin: 20,
    /** Longest wait of the rows of a live call, and of an answer, for a sync that others need. */
    syncShare: 50,
    /** The checkpoint thread ends after this time without a checkpoint, to free its memory. */
    checkpointerIdle: 15 * second,
  },
  postgres: {
    /** As for SQLite: a time further in the future than this is from a clock that went back. */
    clockStep: 10 * minute,
    /** The server ends a transaction that is idle for this long, for example of a stopped process. */
    idleTransaction: 10 * second,
    /** Longest wait for a row lock; the transaction is then retried. */
    lock: 5 * second,
    /** The same for joint transactions, which then run alone. */
    jointLock: 100,
    /** The server cancels a statement after this time. */
    statement: 30 * second,
    /** The client gives up on a server that does not respond; longer than `statement`. */
    response: 35 * second,
    /** Longest time to open a connection, or to get a free one from the pool. */
    connect: 15 * second,
    /** Refused connections within this time of each other are reported once. */
    refusals: minute,
    /** A full disk is reported for this time after the last write that it has refused: small writes still fit. */
    fullDisk: 5 * minute,
    /** Idle time before the first TCP keep-alive probe. */
    keepAlive: 10 * second,
    /** Longest migration. */
    migration: day,
    /** Backoff of the LISTEN connection: the first pause, doubled up to the longest. */
    listenRetry: 500,
    listenRetryLongest: 30 * second,
    /** Longest wait for the LISTEN connection to close. */
    listenClose: second,
    /** Shortest time between two notifications; a later one covers all that were due in the meantime. */
    notifyInterval: 100,
  },
  http: {
    /** Longest time until the last header of a request. */
    headers: 10 * second,
    /** Longest time until the last byte of a request. */
    request: 30 * second,
    /** A connection without a request is closed after this time. A proxy must close its connection before: its next request
     *  might meet the close, and fail. Caddy keeps connections for 2 minutes, Google's load balancer for 10. */
    idle: 11 * minute,
    /** Interval at which slow connections are searched, and at least as often as `headers`. */
    connectionCheck: second,
    /** The public /readyz repeats a response for this long. */
    readyCache: second,
    /** Longest time an adapter may take to authorize a websocket. */
    authorize: 5 * second,
    /** Longest wait for a websocket's close frame. */
    closeFrame: 2 * second,
    /** Interval of websocket pings. */
    ping: 15 * second,
    /** At a shutdown and at a reload: time for about one spoken sentence. */
    talk: 8 * second,
    /** At a shutdown, after the last call: time for the provider's last request about it. */
    lastRequest: 1500,
    /** Running requests are cut off this long after the listener began to close. */
    closeGrace: 5 * second,
    /** Interval at which a closing listener closes idle connections. */
    closeCheck: 50,
  },
  console: {
    /** A login link is valid for this long. */
    link: 10 * minute,
    /** A session ends after this time without a request, and at the latest this long after its login. */
    idle: 12 * hour,
    longest: 7 * day,
    /** A session in use is extended at most this often, because it is a write. */
    renewal: hour,
    /** The state of the store is checked at most this often, because the check is a write. */
    storeCheck: 10 * second,
    /** Width of a bar of the chart, and the time for which the counts of a past one are kept. */
    hour,
    keep: 10 * minute,
    /** Parsing a mail for the page that shows its HTML part ends after this time. */
    mailHtml: 5 * second,
    /** An oldest message that waits longer than this is shown as a problem. */
    late: 10 * minute,
    /** Interval at which an open page is checked for changes. */
    refresh: 2 * second,
  },
  channels: {
    /** Lease under which one node reads a channel. */
    lease: 30 * second,
    /** Interval of its renewal, and of attempts to take it. */
    renewal: 10 * second,
    /** Backoff of a channel's inbound: the first pause, doubled up to the longest. */
    restart: second,
    restartLongest: minute,
    /** A run of this length resets the backoff. */
    stableRun: 2 * minute,
    /** Replies wait at most this long for the channel's first backfill. */
    catchUp: 30 * second,
    /** Longest time the code of an adapter may take to load. */
    load: 20 * second,
    /** Longest time an adapter may take to close. */
    close: 5 * second,
    /** Longest wait for an adapter after that time. */
    closeGrace: second,
    /** The watchdog reports a supervisor that has not run for this long. */
    stuck: 2 * minute,
  },
  calls: {
    /** A node without a heartbeat for this long is dead, and its calls are lost. */
    nodeLease: 20 * second,
    /** Interval of the heartbeat. */
    nodeRenewal: 5 * second,
    /** Lanes of a dead node's calls are leased for at most this much longer, because a caller waits. */
    laneTakeover: 20 * second,
    /** The record of an ended node is deleted after this time. */
    nodeRecord: day,
    /** A lost call that never comes back is closed after this time. */
    lostCall: 6 * hour,
    /** A lost call reserves its conversation for this long. */
    reserved: 2 * minute,
    /** A reply waits this long for the connection of a lost call, and for an adapter that defers it. */
    replyWait: minute,
    /** Interval at which a waiting reply is tried again. */
    replyRetry: 500,
    /** Shortest such interval that an adapter may request. */
    replyRetryShortest: 100,
  },
  commands: {
    /** An identical text to the same recipient within this time is the same command run twice. */
    sameText: 10 * minute,
    /** `reload` waits this long for the daemon's result (below TimeoutStartSec= of the unit), and looks at this interval. */
    reload: 75 * second,
    reloadCheck: 50,
    /** `log-level` waits this long for the daemon's answer, and looks for it at this interval. */
    logLevel: 10 * second,
    logLevelCheck: 50,
    /** `start --wait` looks for the outcome at this interval. */
    startCheck: 100,
    /** `doctor` gives each connection this long to prove itself, and the daemon that may run at the configured address. */
    probe: 30 * second,
    probeDaemon: 2 * second,
    /** `doctor` reports a certificate that expires within this time. */
    certificateSoon: 14 * day,
    /** `doctor` reports a clock that differs from the platform's by more than this; an error beyond the longer one. */
    clockSkew: 30 * second,
    clockSkewWorst: 5 * minute,
    /** `doctor` reports a Node.js release line whose support ends within this time. */
    nodeSoon: 21 * day,
    /** A PostgreSQL store is being copied when a batch of it was read within this time. */
    copying: minute,
    /** `erase` waits this long for work of the person that the daemon does now, and looks at this interval. */
    inFlight: 30 * second,
    inFlightCheck: 250,
    /** `erase --platform` pauses between two attempts of a request: the first time, doubled up to the longest; and the longest
     *  Retry-After that it waits for. */
    platformPauses: { first: 250, longest: 10 * second, longestRetryAfter: minute },
    /** A progress bar is drawn at this interval, after the operation has run for `progressAfter`. */
    progress: 100,
    progressAfter: second,
    /** `init` gives each DNS lookup and each autoconfiguration page this long. */
    initLookup: 5 * second,
    /** `init` waits this long for the mail that it sends to the mailbox itself. */
    initRoundTrip: 2 * minute,
    /** How far the clock of a mail server may be behind for `init` to recognize its mail. */
    initClockSkew: 10 * minute,
  },
  startup: {
    /** Backoff of an unreachable store: the first pause, doubled up to the longest. */
    storeRetry: second,
    storeRetryLongest: 30 * second,
    /** While the databases are opened, systemd is given this much more time, at this interval. */
    extension: minute,
    extensionEvery: 15 * second,
    /** READY is sent when every channel has tried to connect, or after this time; interval at which this is checked. */
    firstConnections: 20 * second,
    firstConnectionsCheck: 20,
    /** The event loop has been quiet for this long before memory is released. */
    quiet: 2 * second,
    /** CPU time of the process after which V8 may use its slowest compiler, and how often it is asked for. */
    busy: 30 * second,
    busyCheck: 5 * second,
  },
  shutdown: {
    /** Time for running work, including `http.talk`. Both are below TimeoutStopSec= of the unit. */
    drain: 20 * second,
    /** Longest stop. An adapter that ignores the signals of its work is left then, as at a kill. */
    longest: 25 * second,
  },
  upkeep: {
    /** Longest request to the heartbeat URL, longest export of traces, and the pause between two exports. */
    heartbeat: 30 * second,
    export: 10 * second,
    exportPause: 5 * second,
    /** Intervals of the status for systemd, and of the search for a requested log level. */
    status: 30 * second,
    logLevelCheck: 2 * second,
    /** Longest wait of a line of the log for others to be written with; and for the log's reader at the exit. */
    logFlush: 50,
    logReader: 2 * second,
    /** Time from the start to the first retention, its interval, and the pause between two of its batches. */
    retentionFirst: 10 * minute,
    retention: hour,
    retentionPause: 50,
    /** Old work that is held or stuck is checked again after this time. */
    retentionRecheck: day,
    /** Copies next to the store stay at least this long, however short the retention of raw messages is. */
    copiesLeast: day,
    /** Pause between two steps of the store's maintenance, and the interval at which the store's generation advances. */
    maintenancePause: 20,
    generation: minute,
    /** After an unclean end the store's file is checked this long after READY, for at most the longer time. */
    storeCheckDelay: 30 * second,
    storeCheckLongest: 10 * minute,
    /** A store that was replaced is reported for this long, even when nothing is held. */
    storeChanged: day,
  },
  health: {
    /** The store is not writable when it does not answer within this time. */
    store: 5 * second,
    /** Longest lag of the event loop, and longest age of the last success of each probe, with which the watchdog is fed. */
    lag: 5 * second,
    probe: 30 * second,
    /** Longest call of systemd-notify. */
    notify: 5 * second,
    /** Backoff of a failed task of the daemon: the first pause, doubled up to the longest. */
    taskRestart: second,
    taskRestartLongest: minute,
  },
};

type Durations<T> = T extends number
  ? number
  : T extends readonly number[]
    ? readonly number[]
    : { readonly [Name in keyof T]: Durations<T[Name]> };

export type Timing = Durations<typeof table>;

/** The durations of the daemon in production. */
export const standardTiming: Timing = table;

type Overrides<T> = T extends number | readonly number[]
  ? T
  : string extends keyof T
    ? T
    : { readonly [Name in keyof T]?: Overrides<T[Name]> };

/** Durations that differ from the standard ones, by area. A schedule is replaced as a whole. */
export type TimingOverrides = Overrides<Timing>;

/** Returns `base` with the overrides. */
export const timingWith = (overrides: TimingOverrides = {}, base: Timing = standardTiming): Timing =>
  merged(base, overrides) as Timing;

interface DurationTree {
  readonly [name: string]: number | readonly number[] | DurationTree;
}

function merged(base: DurationTree, overrides: DurationTree): DurationTree {
  const changed = Object.entries(overrides).map(([name, own]) => {
    const standard = base[name];
    return [name, isTree(own) && isTree(standard) ? merged(standard, own) : own];
  });
  return { ...base, ...Object.fromEntries(changed) };
}

const isTree = (value: DurationTree[string] | undefined): value is DurationTree =>
  typeof value === "object" && !Array.isArray(value);
