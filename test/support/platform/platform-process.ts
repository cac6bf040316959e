// A platform in a process of its own, to be killed. Arguments: the database's file. Prints its address.

import { systemClock } from "../../../src/ops/clock.ts";
import { readAgents, startPlatform } from "../../../src/platform/index.ts";

const agents =
  "organization: { name: A }\nagents: [{ name: a, key: some-key-1, rules: [{ when: hi, answer: Hello. }] }]";
const quiet = () => {};
const platform = await startPlatform({
  file: process.argv[2] ?? "",
  listen: { host: "127.0.0.1", port: 0 },
  agents: readAgents(agents, "agents.yaml"),
  clock: systemClock,
  log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
});
process.stdout.write(`${platform.url}\n`);
