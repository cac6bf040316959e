// Lists and statistics of the embedded platform with many messages, compared with few. Both platforms run in one process,
// because two processes that run the same code differ by up to a quarter in how V8 has optimized it. They get the same
// requests in turns, one at a time. Pages have ten items, so that all pages of both are full. The samples of both are as
// many, so that both read them from memory.

import { clock, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { median, printFigure, printTally } from "../report.ts";
import { agentKey, benchAgents, organizationKey } from "./agent.ts";
import { commonName, type Grown, grow, rareName } from "./grown.ts";
import { type Credential, type Line, openLine, requestOf } from "./http-line.ts";
import { startServedTogether, temporaryDirectory } from "./subjects.ts";

const few = 1000;
const pageSize = 10;
/** Requests of each query that are not timed: all samples, and enough for V8 to optimize the code. */
const warming = 50;

interface Query {
  readonly name: string;
  readonly credential?: Credential;
  /** Null: for information, because the number of results grows with the store. */
  readonly goal?: null;
  /** Path of the nth request to a platform with these contents. */
  path(grown: Grown, n: number): string;
}

const iso = (ms: number) => encodeURIComponent(new Date(ms).toISOString());
const pageOf = (place: "first" | "middle" | "last", items: number) => {
  const last = items / pageSize;
  return place === "first" ? 1 : place === "middle" ? Math.ceil(last / 2) : last;
};
const one = <T>(list: readonly T[], n: number): T => {
  const item = list[n % list.length];
  if (item === undefined) throw new Error("the list is empty");
  return item;
};

const places = ["first", "middle", "last"] as const;
const conversations = `/external/conversations?pageSize=${pageSize}`;
const users = (path: string, items: (grown: Grown) => number, credential: Credential, name: string): Query[] =>
  places.map((place) => ({
    name: `${name}, ${place} page`,
    credential,
    path: (grown) => `/external/agents/${path}?pageSize=${pageSize}&page=${pageOf(place, items(grown))}`,
  }));
const statistic = (name: string, filter: (grown: Grown, n: number) => string): Query => ({
  name: `statistic${name}`,
  path: (grown, n) => `/external/agents/statistic?${filter(grown, n)}`,
});
const within = ({ from, until }: Grown, share: number) => iso(Math.round(from + (until - from) * share));

const queries: readonly Query[] = [
  ...(["createdAt", "updatedAt"] as const).flatMap((orderBy) =>
    places.map((place) => ({
      name: `conversations by ${orderBy}, ${place} page`,
      path: (grown: Grown) => `${conversations}&orderBy=${orderBy}&page=${pageOf(place, grown.conversations)}`,
    })),
  ),
  {
    name: "conversations with a keyword",
    path: () => `${conversations}&searchKeyword=${rareName.toLowerCase()}`,
  },
  { name: "conversations of a user", path: ({ some }, n) => `${conversations}&userId=${one(some, n).id}` },
  {
    name: "conversations of a period",
    path: (grown) => `${conversations}&orderBy=updatedAt&startDate=${within(grown, 0.4)}&endDate=${within(grown, 0.6)}`,
  },
  {
    name: "keyword that finds 1 in 100",
    goal: null,
    path: () => `${conversations}&searchKeyword=${commonName}`,
  },
  ...users("users", ({ people }) => people, agentKey, "agents/users"),
  ...users(`${benchAgents()[0]?.id}/users`, ({ people }) => people, organizationKey, "agents/{id}/users"),
  {
    name: "messages of a conversation (10)",
    path: ({ tens }, n) => `/external/conversations/${one(tens, n)}/messages`,
  },
  statistic("", () => ""),
  statistic(" startDate", (grown) => `startDate=${within(grown, 0.5)}`),
  statistic(" endDate", (grown) => `endDate=${within(grown, 0.5)}`),
  statistic(" of a period", (grown) => `startDate=${within(grown, 0.3)}&endDate=${within(grown, 0.6)}`),
  statistic(" fkId", ({ some }, n) => `fkId=${one(some, n).fkId}`),
  statistic(" fkUserId", ({ some }, n) => `fkUserId=${one(some, n).fkUserId}`),
  statistic(" userId", ({ some }, n) => `userId=${one(some, n).id}`),
  statistic(" conversationUserId", ({ some }, n) => `conversationUserId=${one(some, n).id}`),
  statistic(" fkId in a period", (grown, n) => `fkId=${one(grown.some, n).fkId}&startDate=${within(grown, 0.1)}`),
];

/** `rounds` of `count` requests for each query. */
export async function longLists(many: number, rounds: number, count: number): Promise<Tally> {
  const directory = temporaryDirectory();
  try {
    const began = clock();
    const small = grow(directory.file("few.db"), few);
    const large = grow(directory.file("many.db"), many);
    process.stdout.write(
      `${large.messages} messages, ${large.conversations} conversations, ${large.people} people against ${few} messages; made in ${((clock() - began) / 1000).toFixed(0)} s\n`,
    );
    const compared = queries.map((query): Compared => ({ query, small: [], large: [], failed: 0 }));
    for (let round = 0; round < rounds; round += 1) await measure(compared, [small, large], count);
    for (const each of compared) print(each);
    const failed = compared.reduce((sum, each) => sum + each.failed, 0);
    const tally = { lost: failed, duplicated: 0 };
    printTally("lists: failed requests", { lost: 0, duplicated: 0 }, tally);
    return tally;
  } finally {
    directory.remove();
  }
}

/** A query with the times of its requests to both platforms, in milliseconds. */
interface Compared {
  readonly query: Query;
  readonly small: number[];
  readonly large: number[];
  failed: number;
}

/** Starts both platforms anew. Every query runs with all samples before the first one is timed. */
async function measure(
  compared: readonly Compared[],
  [small, large]: readonly [Grown, Grown],
  count: number,
): Promise<void> {
  const { subject, ports } = await startServedTogether([small.file, large.file]);
  const [smallPort = 0, largePort = 0] = ports;
  try {
    for (const isTimed of [false, true])
      for (const each of compared) {
        const lines = { small: await openLine(smallPort), large: await openLine(largePort) };
        const sides = [
          { grown: small, line: lines.small, times: isTimed ? each.small : [] },
          { grown: large, line: lines.large, times: isTimed ? each.large : [] },
        ];
        each.failed += await ask(each.query, sides, isTimed ? count : warming);
        lines.small.close();
        lines.large.close();
      }
  } finally {
    await subject.stop();
  }
}

interface Side {
  readonly grown: Grown;
  readonly line: Line;
  readonly times: number[];
}

/** Sends `count` requests to each side in turns. Returns the number of failed requests. */
async function ask(query: Query, sides: readonly Side[], count: number): Promise<number> {
  let failed = 0;
  for (let n = 0; n < count; n += 1)
    for (const { grown, line, times } of n % 2 === 0 ? sides : sides.toReversed()) {
      const request = requestOf("GET", query.path(grown, n), query.credential ?? agentKey);
      const { status, ms } = await line.ask(request);
      if (status !== 200) failed += 1;
      times.push(ms);
    }
  return failed;
}

function print({ query, ...times }: Compared): void {
  const [small, large] = [median(times.small), median(times.large)];
  printFigure({
    name: query.name,
    baseline: small,
    measured: large,
    unit: "ms",
    compare: "ratio",
    goal: query.goal === null ? null : goalOf("lists", large / small),
  });
}
