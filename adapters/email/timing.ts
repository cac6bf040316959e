// All durations of the email adapter, in milliseconds, that its configuration does not define, except for the idle limits of known
// providers (providers.ts). `create` passes them down; a test overrides one through its channel.

import { day, hour, minute, second } from "bridgehead/contract";

export const standardTiming = {
  // Connections.
  /** Longest time to open a connection, by IMAP and by SMTP; the configured `smtp.timeout` may be shorter. */
  connect: 30 * second,
  /** Longest wait for the greeting of the IMAP server. */
  imapGreeting: 16 * second,
  /** Shortest time without a byte from the IMAP server after which the connection counts as lost. */
  imapSilence: minute,
  /** Longest wait for the SMTP server to close a connection. */
  smtpClose: second,
  /** Providers close idle SMTP connections after minutes; reusing an older one would only cause a failed attempt. */
  smtpIdle: 20 * second,
  /** After this time without a refused SMTP connection the configured number of connections is tried again. */
  smtpRefusal: 10 * minute,
  /** Longest request to a token endpoint. */
  tokenRequest: 20 * second,
  /** Lifetime of a token whose issuer states none. */
  tokenLifetime: hour,
  /** A token is replaced this long before it expires, or at half its lifetime when that is shorter. */
  tokenRenewal: 5 * minute,
  /** The IMAP connection is replaced this long before its login expires, or after three quarters of its time. */
  loginRenewal: minute,
  // Reading.
  /** An aborted run waits this long for a commit in progress, and for the marks that follow it. */
  commitGrace: 500,
  /** A message that could not be read is read again after this time, doubled with each retry. */
  unread: 2 * second,
  /** Clocks differ and servers deliver late: reading a mailbox again begins this long before the last message that was read. */
  rescanMargin: day,
  /** Shortest time without progress after which a connection is ended: a server with much to do may take seconds. */
  stuck: 15 * second,
  /** Older marks of another installation do not show that it works on the mailbox now. */
  recentMarks: hour,
  /** A message is a copy when it was delivered this long before it arrived. Clocks and time zones are wrong by hours. */
  copied: 2 * day,
  /** `doctor` reports a mailbox without new mail for this long. */
  quiet: 7 * day,
  /** The same waits this long for one answer of a DNS server. */
  examineAnswer: 5 * second,
  // Parsing in a worker thread.
  /** Longest time to parse a message, and the extra time for the start of a thread and for the check of the sender. */
  parse: 5 * second,
  parserStart: 20 * second,
  senderCheck: 15 * second,
  /** Longest wait for the DNS records of one message, and for one answer of a server. */
  dns: 8 * second,
  dnsAnswer: 2 * second,
  /** An idle worker ends after this time. */
  parserIdle: 5 * minute,
  // Sending.
  /** Longest rendering of a long text. It takes 50 ms at most; the rest covers the start of the worker on a busy machine. */
  render: 5 * second,
  /** Longest time to open a connection to the Sent folder, and how long it stays open without work. */
  sentConnect: minute,
  sentIdle: 10 * second,
  /** A provider may file a copy late. Before this time has passed, absence proves nothing. */
  filing: 2 * minute,
  /** The Sent folder is searched again after this time when it could not be read. */
  lookup: minute,
  /** A canary that could not be sent is sent again after this time, or after the configured limit when that is shorter. */
  canaryRetry: minute,
};

export type EmailTiming = typeof standardTiming;
