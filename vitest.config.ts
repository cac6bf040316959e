import { env } from "node:process";
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
    testTimeout: 60_000,
    // These tests wait, within bounds, for real servers and processes. On a machine that others keep busy a bound may run
    // out: a second try in CI tells that from a defect. Every first failure is still printed.
    retry: env["CI"] === undefined ? 0 : 1,
    hookTimeout: 120_000,
  },
});
