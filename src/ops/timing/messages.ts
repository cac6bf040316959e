// The areas of the timing table that concern messages, escalations and the platform.

import { day, hour, minute, second } from "bridgehead/contract";

/** Lookups of an attempt of unknown outcome, and polls after a failed one. */
const lookup = [500, 2 * second, 5 * second, 15 * second, minute];

export const messages = {
  rate: {
    /** A process keeps drawn requests at most this long; pause after a failed draw. */
    drawValid: 500,
    drawRetry: second,
    /** Delays after a 429 without Retry-After are at most the window of the limit (External API 8). */
    window: minute,
    /** Longest Retry-After of the platform that is obeyed. */
    longestPenalty: 15 * minute,
    /** Longest wait of any caller, plus a margin; bounds stored times after a backward clock step. */
    longestWait: 61 * second,
    /** Longest wait of requests that no customer waits for: settings, webhook registrations. */
    backgroundWait: minute,
  },
  agents: {
    /** Longest wait of a request for a connection to the platform. */
    connection: 10 * second,
    /** Timeout of a call that reads the agent's settings or changes its webhooks. */
    call: 30 * second,
    /** Settings that were never read are read again after this time. */
    settingsRetry: 5 * second,
    /** Shortest time between two reads of the settings, however often calls are refused. */
    settingsPause: second,
  },
  accept: {
    /** A sender counts as known this long after the first message, so that a flood stays unknown. */
    knownSender: day,
  },
  route: {
    /** Retries of an event that could not be routed. */
    retry: [second, 2 * second, 4 * second, 8 * second, 16 * second],
    /** Precision of the times at which the channel's own addresses were last used. */
    ownAddress: hour,
    /** A message that is routed this long after the last hard bounce ends the suppression of its address. Forged messages in a
     *  row end none. */
    bounced: hour,
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
    /** Retries of a question that was certainly not asked. */
    retry: [second, 5 * second, 15 * second, minute, 5 * minute],
    /** A question that the platform only ever deferred fails after this time. */
    lifetime: 3 * day,
    /** Lookups of a question of unknown outcome. */
    lookup,
    /** A lookup that may find a question absent for good begins this long after the time when absence counts. */
    absentMargin: 10,
    /** A question that the platform certainly has fails without an answer after this time. */
    answerLifetime: 30 * minute,
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
    /** Retries of a deferred draft. Mail has the usual schedule of mail servers: RFC 5321 4.5.4.1 asks for at least 30 minutes
     *  after the first tries, and for 4-5 days. */
    retry: {
      phone: [2 * second, 5 * second, 15 * second, 30 * second, minute, 2 * minute, 5 * minute],
      mail: [30 * second, 5 * minute, 15 * minute, hour, 2 * hour, 4 * hour],
    },
    /** A draft that is only ever deferred fails after this time. */
    lifetime: 3 * day,
    /** Pauses of a sender or a channel. Each ends with one attempt, so a short one costs one connection. A rejected login is
     *  retried less often, because mail providers lock accounts for it. */
    pause: {
      phone: {
        unreachable: [second, 2 * second, 4 * second, 8 * second, 15 * second],
        login: [5 * second, 10 * second, 20 * second, 30 * second],
        rate: [second, 2 * second, 4 * second, 8 * second, 15 * second, 30 * second],
        "set-up": [30 * second, minute, 2 * minute, 5 * minute],
      },
      mail: {
        unreachable: [5 * second, 10 * second, 20 * second, 30 * second],
        login: [minute, 2 * minute, 5 * minute],
        rate: [15 * minute],
        "set-up": [5 * minute, 15 * minute],
      },
    },
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
    /** Retries of a download. */
    retry: [2 * second, 15 * second, minute, 5 * minute, 15 * minute, hour, 4 * hour],
    /** Timeout of one download. */
    attempt: 2 * minute,
    /** Part of the lease beyond a download. */
    leaseMargin: 15 * second,
  },
  reconcile: {
    /** Lookups of a draft of unknown outcome. */
    lookup,
    /** Longest reconcile period of a notification before it is sent again. */
    notificationWindow: 45 * second,
    /** A delivery receipt that names no known draft is matched again at this interval, and given up after that time. */
    receiptRetry: second,
    receiptWait: minute,
    /** A bounce that names only the recipient matches a draft sent within this time. */
    bounce: 7 * day,
  },
  /** Webhooks of notification targets. */
  webhook: {
    /** Longest wait for the address of the receiver's name, and for a connection. */
    connect: 5 * second,
    /** Longest wait for the response. */
    answer: 20 * second,
    /** Retries of a delivery, as Standard Webhooks recommends, and the longest Retry-After that is obeyed. */
    retry: [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, day],
    longestRetryAfter: day,
  },
  escalation: {
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
    /** Retries of a poll that failed. */
    pollRetry: lookup,
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
};
