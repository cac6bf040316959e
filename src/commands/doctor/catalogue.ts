// The findings of `bridgehead doctor`: their ids, which are stable, and their severity. docs/doctor.md has a section for
// each, which test/commands/doctor/catalogue.test.ts compares.

import { fileURLToPath } from "node:url";
import type { ChannelFinding } from "bridgehead/contract";

export type Severity = "error" | "warning" | "info";

/** Severity of every built-in finding. Errors stop messages or expose data; warnings may; infos need no action. */
export const catalogue = {
  "configuration-invalid": "error",
  "configuration-warning": "warning",
  "escalation-missing": "warning",
  "escalation-single-path": "warning",
  "responder-unreachable": "error",
  "notification-loop": "error",
  "own-mailbox-writes": "warning",
  "file-mode": "error",
  "file-owner": "error",
  "disk-space": "error",
  "disk-inodes": "error",
  "node-end-of-life": "warning",
  "store-unusable": "error",
  "store-damaged": "error",
  "store-newer": "error",
  "store-outdated": "warning",
  "daemon-stopped": "warning",
  "daemon-not-ready": "error",
  "daemon-warning": "warning",
  "channel-down": "error",
  "channel-warning": "warning",
  "channel-not-asking": "warning",
  "channel-paused": "warning",
  "sending-paused": "warning",
  "messages-late": "warning",
  "escalation-path-down": "error",
  "escalation-unreached": "error",
  "messages-held": "warning",
  "messages-failed": "warning",
  "port-taken": "error",
  "platform-unreachable": "error",
  "model-unreachable": "error",
  "agent-key-rejected": "error",
  "agent-inactive": "warning",
  "agent-skill-missing": "warning",
  "clock-skew": "error",
  "public-url-unreachable": "error",
  "certificate-expired": "error",
  "certificate-expiring": "warning",
  "certificate-untrusted": "error",
  "channel-login-rejected": "error",
  "channel-unreachable": "error",
  "imap-capability-missing": "info",
  "uidvalidity-changed": "warning",
  "mailbox-silent": "warning",
  "dns-unreachable": "warning",
  "spf-missing": "warning",
  "dmarc-missing": "warning",
  "dkim-unknown": "info",
  "dkim-key-missing": "error",
  "number-missing": "error",
  "webhook-mismatch": "error",
  "messaging-service-webhook": "error",
  "sender-refused": "error",
} as const satisfies Record<string, Severity>;

export type FindingId = keyof typeof catalogue;

/** One problem, as it is printed. */
export interface Diagnosis {
  /** One of the catalogue, or of a third-party adapter. */
  readonly id: string;
  readonly severity: Severity;
  /** Where: a file with line and key, a channel, an agent, a server. */
  readonly place: string;
  readonly cause: string;
  /** The exact command, or the keys to change. */
  readonly remedy: string;
  /** The section about it; null for a finding of a third-party adapter. */
  readonly docs: string | null;
  /** What `--fix` changes; absent for findings that it cannot cure. */
  readonly change?: FileChange;
}

export type FileChange =
  | { readonly path: string; readonly mode: number }
  | { readonly path: string; readonly uid: number; readonly gid: number };

/** This file is at src/commands/doctor in a checkout and at dist/src/commands/doctor in a package. */
const page = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../../docs/doctor.md" : "../../../../docs/doctor.md", import.meta.url),
);

export function diagnosis(
  id: FindingId,
  place: string,
  cause: string,
  remedy: string,
  more: { readonly severity?: Severity; readonly change?: FileChange } = {},
): Diagnosis {
  const { change, severity = catalogue[id] } = more;
  return { id, severity, place, cause, remedy, docs: `${page}#${id}`, ...(change && { change }) };
}

/** Converts a finding of an adapter, whose id may not be in the catalogue. */
export function adapterDiagnosis(
  { id, severity, message: cause, fix: remedy }: ChannelFinding,
  place: string,
): Diagnosis {
  if (Object.hasOwn(catalogue, id)) return diagnosis(id as FindingId, place, cause, remedy);
  return { id, severity, place, cause, remedy, docs: null };
}
