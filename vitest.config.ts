import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["source"] },
  // Not "import": the workers would hand it to Node, and a require() would get modules meant for import.
  ssr: { resolve: { conditions: ["source", "node", "default"] } },
  test: {
    include: ["test/**/*.test.ts"],
    reporters: ["default", "./test/closing-line.ts"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // A poll ends with its condition. How long it may take is no statement: a machine may stand still for seconds.
    expect: { poll: { timeout: 60_000 } },
  },
});
