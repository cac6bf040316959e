import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.ts";

const long = "test/**/*.long.test.ts";
const conditions = ["source", "node", "default"];
const connections = "./test/support/connections.ts";

export default defineConfig({
  resolve: { conditions: ["source"] },
  // Not "import": the workers would hand it to Node, and a require() would get modules meant for import.
  ssr: { resolve: { conditions } },
  // The environment of the global setup. Otherwise it would load the package from dist, which a fresh clone does not have.
  environments: { __vitest__: { resolve: { conditions } } },
  test: {
    // Two lanes: `npm test`, and `npm run test:crash` for what kills many processes, cuts the power, needs a browser or
    // takes minutes.
    projects: [
      {
        extends: true,
        test: {
          name: "short",
          include: ["test/**/*.test.ts"],
          exclude: [long],
          // Loading the same modules again for each file took a fifth of the CPU time.
          isolate: false,
          setupFiles: [connections, "./test/support/leftovers.ts"],
        },
      },
      { extends: true, test: { name: "long", include: [long], setupFiles: [connections] } },
    ],
    globalSetup: ["./test/support/run.ts"],
    reporters: ["default", "./test/support/closing-line.ts"],
    pool: "forks",
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    testTimeout: 300_000,
    hookTimeout: 600_000,
    // A poll ends with its condition. How long it may take is no statement: a machine may stand still for seconds.
    expect: { poll: { timeout: 150_000 } },
  },
});
