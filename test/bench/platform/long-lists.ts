// Lists and statistics of the embedded platform with many messages, compared with few. Both platforms get the same
// requests in turns, one at a time. Pages have ten items, so that all pages of both are full.

import { clock, type Tally } from "../clock.ts";
import { atMost, median, printFigure, printTally } from "../report.ts";
import { agentKey, benchAgents, organizationKey } from "./agent.ts";
import { commonName, type Grown, grow, rareName } from "./grown.ts";
import { type Credential, type Line, openLine, requestOf } from "./http-line.ts";
import { startServed, temporaryDirectory } from "./subjects.ts";

const few = 1000;
const goal = 1.2;
const pageSize = 10;

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
const users = (
  path: string,
  items: (grown: Grown) => number,
  credential: Credential,
  name: string,
): Query[] =>
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
      path: (grown: Grown) =>
        `${conversations}&orderBy=${orderBy}&page=${pageOf(place, grown.conversations)}`,
    })),
  ),
  {
    name: "conversations with a keyword",
    path: () => `${conversations}&searchKeyword=${rareName.toLowerCase()}`,
  },
  { name: "conversations of a user", path: ({ some }, n) => `${conversations}&userId=${one(some, n).id}` },
  {
    name: "conversations of a period",
    path: (grown) =>
      `${conversations}&orderBy=updatedAt&startDate=${within(grown, 0.4)}&endDate=${within(grown, 0.6)}`,
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
  statistic(
    " fkId in a period",
    (grown, n) => `fkId=${one(grown.some, n).fkId}&startDate=${within(grown, 0.1)}`,
  ),
];

export async function longLists(many: number, count: number): Promise<Tally> {
  const directory = temporaryDirectory();
  try {
    const began = clock();
    const small = grow(directory.file("few.db"), few);
    const large = grow(directory.file("many.db"), many);
    process.stdout.write(
      `${large.messages} messages, ${large.conversations} conversations, ${large.people} people against ${few} messages; made in ${((clock() - began) / 1000).toFixed(0)} s\n`,
    );
    const failed = await compareAll(small, large, count);
    const tally = { lost: failed, duplicated: 0 };
    printTally("lists: failed requests", { lost: 0, duplicated: 0 }, tally);
    return tally;
  } finally {
    directory.remove();
  }
}

async function compareAll(small: Grown, large: Grown, count: number): Promise<number> {
  const served = [await startServed(small.file), await startServed(large.file)];
  let failed = 0;
  try {
    for (const query of queries) {
      const lines = await Promise.all(served.map(({ port }) => openLine(port)));
      const sides = [small, large].flatMap((grown, index) => {
        const line = lines[index];
        return line ? [{ grown, line, times: [] as number[] }] : [];
      });
      failed += await compare(query, sides, count);
      for (const line of lines) line.close();
    }
  } finally {
    await Promise.all(served.map((each) => each.stop()));
  }
  return failed;
}

interface Side {
  readonly grown: Grown;
  readonly line: Line;
  readonly times: number[];
}

/** Returns the number of failed requests. The first tenth of the requests is not counted. */
async function compare(query: Query, sides: readonly Side[], count: number): Promise<number> {
  let failed = 0;
  const warming = Math.ceil(count / 10);
  for (let n = 0; n < warming + count; n += 1)
    for (const { grown, line, times } of n % 2 === 0 ? sides : sides.toReversed()) {
      const request = requestOf("GET", query.path(grown, n), query.credential ?? agentKey);
      const { status, ms } = await line.ask(request);
      if (status !== 200) failed += 1;
      if (n >= warming) times.push(ms);
    }
  const [small, large] = sides.map(({ times }) => median(times));
  if (small === undefined || large === undefined) return failed;
  printFigure({
    name: query.name,
    baseline: small,
    measured: large,
    unit: "ms",
    compare: "ratio",
    goal: query.goal === null ? null : atMost(large / small, goal, `x ${goal}`),
  });
  return failed;
}
