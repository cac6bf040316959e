// The embedded platform's typical operations at the full rate of sixteen callers, compared with a handler that answers the
// same bytes. Writing operations are also compared with a handler that commits one row per request.

import { clock, type Tally } from "../clock.ts";
import { percentile, printFigure, printTally } from "../report.ts";
import { agentKey, question, startRequest } from "./agent.ts";
import { type Answered, type Line, openLine, requestOf } from "./http-line.ts";
import { routeOf } from "./route.ts";
import { type ServedSubject, startBareServed, startServed, temporaryDirectory } from "./subjects.ts";

const callers = 16;
const conversations = "/external/conversations";

interface Operation {
  readonly name: string;
  readonly writes: boolean;
  readonly status: number;
  /** The nth request of the bench; `open` are existing conversations. */
  readonly request: (n: number, open: readonly string[]) => Buffer;
}

const operations: readonly Operation[] = [
  {
    name: "GET by-api-key",
    writes: false,
    status: 200,
    request: () => requestOf("GET", "/external/agents/by-api-key", agentKey),
  },
  {
    name: "POST start",
    writes: true,
    status: 201,
    request: (n) => requestOf("POST", `${conversations}/start`, agentKey, startRequest(`person${n}@people.test`)),
  },
  {
    name: "POST messages",
    writes: true,
    status: 201,
    request: (n, open) =>
      requestOf("POST", `${conversations}/${open[n % open.length]}/messages`, agentKey, {
        message: question,
      }),
  },
  {
    name: "GET messages (10)",
    writes: false,
    status: 200,
    request: (_n, open) => requestOf("GET", `${conversations}/${open.at(-1)}/messages`, agentKey),
  },
  {
    name: "GET conversations (20)",
    writes: false,
    status: 200,
    request: () => requestOf("GET", conversations, agentKey),
  },
];

interface Measured {
  readonly rates: number[];
  readonly times: number[];
  cpu: number;
  failed: number;
}

export async function servedRates(rounds: number, count: number): Promise<Tally> {
  const directory = temporaryDirectory();
  const platform = await startServed(directory.file("ours.db"));
  const baselines: ServedSubject[] = [];
  try {
    const { open, before, answers } = await over(platform, prepare);
    baselines.push(await startBareServed(answers, null), await startBareServed(answers, directory.file("bare.db")));
    const [bare, row] = baselines;
    let failed = 0;
    for (const operation of operations) {
      const against = [bare, ...(operation.writes ? [row] : [])].filter((each) => each !== undefined);
      const measured = await compare(operation, [platform, ...against], open, rounds, count);
      print(operation, measured);
      failed += measured[0]?.failed ?? 0;
    }
    const asked = (rounds + 1) * count;
    const missing = 2 * asked - ((await over(platform, (line) => said(line, open))) - before);
    const unopened = open.length + 1 + asked - (await over(platform, (line) => total(line, conversations)));
    const tally = {
      lost: failed + Math.max(0, missing) + Math.max(0, unopened),
      duplicated: Math.max(0, -missing) + Math.max(0, -unopened),
    };
    printTally("platform: requests and what they store", { lost: 0, duplicated: 0 }, tally);
    return tally;
  } finally {
    await Promise.all([platform, ...baselines].map((each) => each.stop()));
    directory.remove();
  }
}

/** Uses a connection of its own, because the server closes idle ones after some seconds. */
async function over<T>({ port }: ServedSubject, work: (line: Line) => Promise<T>): Promise<T> {
  const line = await openLine(port);
  try {
    return await work(line);
  } finally {
    line.close();
  }
}

interface Prepared {
  /** Conversations for new messages; the last one has ten messages and gets no more. */
  readonly open: readonly string[];
  /** The platform's response to each operation. */
  readonly answers: { readonly [route: string]: Answered };
  /** Number of messages after the preparation. */
  readonly before: number;
}

async function prepare(line: Line): Promise<Prepared> {
  const open: string[] = [];
  for (let n = 0; n < 4 * callers; n += 1) {
    const body = startRequest(`first${n}@people.test`);
    const { body: answer } = await line.ask(requestOf("POST", `${conversations}/start`, agentKey, body));
    open.push((JSON.parse(answer) as { conversationId: string }).conversationId);
  }
  const path = `${conversations}/${open.at(-1)}/messages`;
  for (let n = 0; n < 5; n += 1) await line.ask(requestOf("POST", path, agentKey, { message: question }));
  const answers: { [route: string]: Answered } = {};
  for (const { request } of operations) {
    const bytes = request(0, open);
    answers[routeOf(bytes.toString().split(" HTTP")[0] ?? "")] = await line.ask(bytes);
  }
  return { open, answers, before: await said(line, open) };
}

const total = async (line: Line, path: string): Promise<number> =>
  (JSON.parse((await line.ask(requestOf("GET", path, agentKey))).body) as { totalItems: number }).totalItems;

async function said(line: Line, open: readonly string[]): Promise<number> {
  let sum = 0;
  for (const id of open) sum += await total(line, `${conversations}/${id}/messages`);
  return sum;
}

/** All subjects take turns round by round; the first round is not counted, because code is compiled. */
async function compare(
  operation: Operation,
  subjects: readonly ServedSubject[],
  open: readonly string[],
  rounds: number,
  count: number,
): Promise<Measured[]> {
  const measured = subjects.map((): Measured => ({ rates: [], times: [], cpu: 0, failed: 0 }));
  for (let round = 0; round <= rounds; round += 1)
    for (const [index, subject] of subjects.entries()) {
      const into = measured[index];
      if (into) await measure(operation, subject, open, { round, count }, into);
    }
  return measured;
}

async function measure(
  { request, status }: Operation,
  subject: ServedSubject,
  open: readonly string[],
  { round, count }: { readonly round: number; readonly count: number },
  into: Measured,
): Promise<void> {
  // The conversation that is read gets no messages.
  const spoken = open.slice(0, -1);
  const requests = Array.from({ length: count }, (_, n) =>
    request(1 + round * count + n, status === 201 ? spoken : open),
  );
  const lines = await Promise.all(Array.from({ length: callers }, () => openLine(subject.port)));
  const left = requests.values();
  const times: number[] = [];
  const cpu = subject.cpu();
  const began = clock();
  await Promise.all(
    lines.map(async (line) => {
      for (const bytes of left) {
        const answered = await line.ask(bytes);
        times.push(answered.ms);
        if (answered.status !== status) into.failed += 1;
      }
    }),
  );
  const took = clock() - began;
  for (const line of lines) line.close();
  if (round === 0) return;
  into.cpu += subject.cpu() - cpu;
  into.rates.push((count * 1000) / took);
  into.times.push(...times);
}

function print({ name }: Operation, [platform, ...baselines]: readonly Measured[]): void {
  if (!platform) return;
  for (const [index, bare] of baselines.entries()) {
    const against = index === 0 ? name : `${name}, baseline commits a row`;
    const figures = [
      { what: "a second", unit: "/s", of: ({ rates }: Measured) => mean(rates) },
      { what: "p99", unit: "ms", of: ({ times }: Measured) => percentile(times, 0.99) },
      { what: "processor time", unit: "ms", of: ({ cpu, times }: Measured) => cpu / times.length },
    ];
    for (const { what, unit, of } of figures)
      printFigure({
        name: `${against}: ${what}`,
        baseline: of(bare),
        measured: of(platform),
        unit,
        compare: "ratio",
        goal: null,
      });
  }
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
