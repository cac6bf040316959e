// All durations of the daemon, in milliseconds, by area. The composition roots (commands/run.ts and app.ts) pass them
// down; a test overrides a duration instead of waiting for it. Not in this table: schedules of retries (domain/retry.ts),
// durations that the configuration defines, constants of a protocol (adapters/, escalation/webhook/), defaults of the
// client library (client/), and the programs for trying out (platform/, sandbox/). test/architecture enforces this.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

const table = {
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
  rate: {
    /** A process keeps drawn requests at most this long; pause after a failed draw. */
    drawValid: 500,
    drawRetry: second,
    /** Longest Retry-After of the platform that is obeyed. */
    longestPenalty: 15 * minute,
    /** Longest wait of any caller, plus a margin; bounds stored times after a backward clock step. */
    longestWait: 61 * second,
    /** Longest wait of requests that no customer waits for: settings, webhook registrations. */
    backgroundWait: minute,
  },
  sqlite: {
    /** Longest wait for the lock of another process, such as a command. */
    busy: 5 * second,
    /** The store's clock follows a system clock that goes back by more than this; else it waits for it. */
    clockStep: 10 * minute,
    /** A commit takes no further transactions after this time, because it blocks the thread. */
    commitBatch: 10,
    /** After waiting this long for a running sync, a commit waits for nothing else. */
    commitGather: 3,
    /** Longest wait of an outcome of a live call, or of a poll, for a transaction whose commit it joins. */
    commitJoin: 20,
    /** Longest wait of the rows of a live call, and of an answer, for a sync that others need. */
    syncShare: 50,
    /** The checkpoint thread ends after this time without a checkpoint, to free its memory. */
    checkpointerIdle: 15 * second,
  },
  postgres: {
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
    /** Idle time before the first TCP keep-alive probe. */
    keepAlive: 10 * second,
    /** Longest migration. */
    migration: day,
    /** Backoff of the LISTEN connection: the first pause, doubled up to the longest. */
    listenRetry: 500,
    listenRetryLongest: 30 * second,
    /** Longest wait for the LISTEN connection to close. */
    listenClose: second,
    /** Shortest time between two notifications; a later one covers all that were due meanwhile. */
    notifyInterval: 100,
  },
  http: {
    /** Longest time until the last header of a request. */
    headers: 10 * second,
    /** Longest time until the last byte of a request. */
    request: 30 * second,
    /** A connection without a request is closed after this time. */
    idle: 5 * second,
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
  agents: {
    /** Timeout of a call that reads the agent's settings or changes its webhooks. */
    call: 30 * second,
    /** Settings that were never read are read again after this time. */
    settingsRetry: 5 * second,
    /** Shortest time between two reads of the settings, however often calls are refused. */
    settingsPause: second,
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
    /** Longest time an adapter may take to close. */
    close: 5 * second,
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
  accept: {
    /** A sender counts as known this long after the first message, so that a flood stays unknown. */
    knownSender: day,
  },
  route: {
    /** Precision of the times at which the channel's own addresses were last used. */
    ownAddress: hour,
    /** A customer is notified of held messages at most once in this time, or once per window of the cap. */
    heldNotice: hour,
    /** Window in which held messages are counted to detect a flood. */
    heldFlood: hour,
    /** A channel at its cap raises an escalation at most once in this time. */
    capEscalation: hour,
    /** A message older than this on arrival was found by a backfill. */
    lateArrival: 10 * second,
    /** Consent keywords closer together than this may have arrived in either order; STOP takes precedence. */
    consentOrder: minute,
  },
  ask: {
    /** Longest wait for the platform's rate limit that a claim includes. */
    rateWait: 2 * second,
    /** Nothing is claimed for at most this long after the rate limit had no room. */
    rateRetry: second,
    /** Longest lookup after a call. A lookup that takes longer is retried later. */
    read: 20 * second,
    /** Part of the lease beyond a wait for the rate, a lookup and a call. */
    leaseMargin: 15 * second,
    /** Delay of the lookup after a search found a conversation that belongs to another one. */
    adoptedRetry: second,
    /** Delay of the first poll after a human's message was passed to the platform. */
    relayedPoll: minute,
  },
  compose: {
    /** Longest time an adapter may take to render an answer before it is stored. */
    prepare: 8 * second,
  },
  send: {
    /** Timeout of one attempt. */
    attempt: 2 * minute,
    /** Part of the lease beyond an attempt. */
    leaseMargin: 15 * second,
    /** Smallest rest of the lease with which an attempt may begin. */
    crossing: 10 * second,
    /** Shortest delay of a retry or a pause when the provider asks for one, also for an immediate retry. */
    shortestRetry: second,
    /** A pause that ends later than this was written with a wrong clock and is ignored. */
    longestPause: hour + 100 * second,
  },
  fetch: {
    /** Timeout of one download. */
    attempt: 2 * minute,
    /** Part of the lease beyond a download. */
    leaseMargin: 15 * second,
  },
  reconcile: {
    /** Longest reconcile period of a notification before it is sent again. */
    noticeWindow: 45 * second,
    /** A delivery receipt that names no known draft is matched again at this interval, and given up after that time. */
    receiptRetry: second,
    receiptWait: minute,
    /** A bounce that names only the recipient matches a draft sent within this time. */
    bounce: 7 * day,
  },
  escalation: {
    /** Longest wait for the response of a notification webhook. */
    webhookAnswer: 20 * second,
    /** Interval at which the alarm is logged while it lasts. */
    alarm: 5 * minute,
    /** Retry of a policy step or of a notification that could not be written. */
    notifyRetry: minute,
    /** Retry of a notification whose escalation is locked by another transaction. */
    notifyBusy: 100,
    /** A notification dated this far in the future was written before a backward clock step, and is due. */
    clockStep: minute,
    /** The last step of a policy is repeated after this time when its notification failed. */
    repeatFailed: 5 * minute,
    /** An escalation that has ended for this long is not meant by a text message any more. */
    replyAfterEnd: day,
    /** Window of the limit of our answers to one responder, against mail loops. */
    answerLoop: hour,
    /** A responder is notified at most once in this time that a reply was held. */
    heldReply: hour,
    /** Pause between two polls of a conversation, without a policy: normally, and while a human is needed. */
    poll: 5 * minute,
    pollOpen: 20 * second,
    /** Delay of the poll after an answer: the platform may change the mode shortly after it. */
    pollAfterAnswer: 500,
    /** Retry of a poll while the lane is busy or the rate limit used up. */
    pollBusy: second,
    /** Timeout of one poll. */
    pollCall: 20 * second,
    /** Part of the lease beyond a poll and a lookup. */
    pollLeaseMargin: 15 * second,
    /** Longest pause between two polls. */
    pollLongest: hour,
    /** A conversation without messages for this long is not polled any more. */
    pollIdle: day,
  },
  platformWebhook: {
    /** Tolerance for clock skew and for the age of a delivery. */
    skew: 5 * minute,
    /** Identical deliveries without an id within this time are one delivery. */
    sameDelivery: hour,
    /** The request that opens the named conversation may be in progress for this long. */
    strangerEscalation: 10 * minute,
    strangerMessage: minute,
    /** Backoff of a delivery that names no known conversation: the first pause, doubled up to the longest. */
    retry: second,
    retryLongest: 15 * second,
    /** Retry of a registration while the agent's settings were not read. */
    registerUnread: second,
    /** Backoff of a failed registration; the longest pause is also the interval of its check. */
    registerRetry: 5 * second,
    registerLongest: hour,
    /** A registration of unknown outcome may take effect, or be made by another node, for this long. */
    registerTimeout: minute,
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
    /** Time for running work, including `http.talk`; below TimeoutStopSec= of the unit. */
    drain: 20 * second,
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
    /** Interval of the retention, and the pause between two of its batches. */
    retention: hour,
    retentionPause: 50,
    /** Old work that is held or stuck is checked again after this time. */
    retentionRecheck: day,
    /** Copies beside the store stay at least this long, however short the retention of raw messages is. */
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

export type Timing = {
  readonly [Area in keyof typeof table]: { readonly [Name in keyof (typeof table)[Area]]: number };
};

/** The durations of the daemon in production. */
export const standardTiming: Timing = table;

/** Durations that differ from the standard ones, by area. */
export type TimingOverrides = { readonly [Area in keyof Timing]?: Partial<Timing[Area]> };

/** Returns `base` with the overrides. */
export function timingWith(overrides: TimingOverrides = {}, base: Timing = standardTiming): Timing {
  const areas = Object.keys(base) as (keyof Timing)[];
  return Object.fromEntries(areas.map((area) => [area, { ...base[area], ...overrides[area] }])) as Timing;
}
