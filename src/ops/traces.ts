// OpenTelemetry traces over OTLP/HTTP: one trace per message, one span per hop. Loaded only when `otlp` is configured.
// Ids of traces are derived from the installation and the number of the message, so that the hops of one message belong
// together across restarts and nodes, without any state.

import { createHash, randomBytes } from "node:crypto";
import { type Attributes, ROOT_CONTEXT, SpanStatusCode, TraceFlags, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import type { Clock, Log } from "bridgehead/contract";
import type { Hop } from "./hops.ts";

export type TraceExport = ReturnType<typeof openTraces>;

export interface TraceOptions {
  /** The endpoint for traces: `http://localhost:4318/v1/traces`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Id of the installation: messages of two stores have different traces. */
  readonly installation: string;
  readonly version: string;
  readonly node: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Longest request, and pause between two exports, in milliseconds. */
  readonly timing: { readonly export: number; readonly exportPause: number };
}

export function openTraces(options: TraceOptions) {
  const { url, headers, timing, clock } = options;
  const exporter = reporting(new OTLPTraceExporter({ url, headers, timeoutMillis: timing.export }), options.log);
  const next = { traceId: "", spanId: "" };
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": "bridgehead",
      "service.version": options.version,
      "service.instance.id": options.node,
    }),
    idGenerator: { generateTraceId: () => next.traceId, generateSpanId: () => next.spanId },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        scheduledDelayMillis: timing.exportPause,
        exportTimeoutMillis: timing.export,
      }),
    ],
  });
  const tracer = provider.getTracer("bridgehead");

  function span(hop: Hop, message: string, end: number): void {
    const digest = createHash("sha256").update(`${options.installation}/${message}`).digest("hex");
    const traceId = digest.slice(0, 32);
    const rootId = digest.slice(32, 48);
    // The receipt is the root; the parent of all other hops.
    const isRoot = hop.name === "received";
    next.traceId = traceId;
    next.spanId = isRoot ? rootId : randomBytes(8).toString("hex");
    const parent = { traceId, spanId: rootId, traceFlags: TraceFlags.SAMPLED, isRemote: true };
    const own = tracer.startSpan(
      hop.name,
      { startTime: end - (hop.tookMs ?? 0), attributes: attributesOf(hop, message), root: isRoot },
      isRoot ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent),
    );
    if (failed.has(hop.name)) own.setStatus({ code: SpanStatusCode.ERROR });
    own.end(end);
  }

  return {
    /** Exports the spans of a hop later. Never throws, never waits. */
    hop(hop: Hop): void {
      if (uncounted.has(hop.name)) return;
      const now = clock.now();
      for (const message of hop.trace.split(" ")) if (message !== "") span(hop, message, now);
    },
    /** Exports the remaining spans, at most for the timeout of the exporter. Never rejects. */
    close: (): Promise<void> => provider.shutdown().catch(() => undefined),
  };
}

const failed: ReadonlySet<string> = new Set(["failed", "held", "replyFailed", "replyHeld"]);
/** Hops that have no line in the log. */
const uncounted: ReadonlySet<string> = new Set(["duplicate", "capped", "askAttempt", "sendAttempt"]);

function attributesOf(hop: Hop, message: string): Attributes {
  const { channel, conversation, turn, draft, session, code, state, attempt, dueAt } = hop;
  const due = dueAt === undefined ? undefined : new Date(dueAt).toISOString();
  const all = { channel, message, conversation, turn, draft, session, code, state, attempt, due };
  return Object.fromEntries(
    Object.entries(all).flatMap(([key, value]) =>
      value === undefined || value === null ? [] : [[`bridgehead.${key}`, value]],
    ),
  );
}

/** Logs the first failure, and the first success after it. */
function reporting(exporter: SpanExporter, log: Log): SpanExporter {
  let isFailing = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const { error } = result;
        if (error && !isFailing) log.warn({ reason: error.message }, "otlp export failed: traces are dropped");
        if (!error && isFailing) log.info({}, "otlp export works again");
        isFailing = error !== undefined;
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush ? { forceFlush: exporter.forceFlush.bind(exporter) } : {}),
  };
}
