import { execFile } from "node:child_process";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { newFolder } from "./support/resources.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Runs vitest as its own process over the given files and returns its output's last line. */
async function ended(files: Record<string, string>, env = {}): Promise<{ line: string; code: number | null }> {
  const folder = newFolder();
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(folder, name), `import { it } from "vitest";\n${text}`);
  const args = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--root", folder];
  const reporter = `--reporter=${join(root, "test/support/closing-line.ts")}`;
  const ended = await new Promise<{ out: string; code: number | null }>((resolve) => {
    // Neither strict nor counted, as the run of this test may be.
    const own = { BRIDGEHEAD_REQUIRE_ALL: "0", BRIDGEHEAD_COUNTS: "" };
    const options = { env: { ...process.env, ...own, ...env } };
    const child = execFile(process.execPath, [...args, reporter], options, (_error, out) => {
      resolve({ out, code: child.exitCode });
    });
  });
  return { line: ended.out.trimEnd().split("\n").at(-1) ?? "", code: ended.code };
}

it("counts what passed, failed and was skipped", async () => {
  const { line } = await ended({
    "a.test.ts":
      'it("a", () => {}); it("b", () => {}); it.skip("c", () => {}); it("d", () => { throw new Error("x"); });',
    "b.test.ts": 'it("e", () => {});',
  });
  expect(line).toBe("3 passed, 1 failed, 1 skipped");
});

it("counts a file that cannot be loaded, and an error outside of tests", async () => {
  expect(await ended({ "a.test.ts": 'import "absent"; it("a", () => {});' })).toMatchObject({
    line: "0 passed, 1 failed, 0 skipped",
  });
  const stray =
    'it("a", async () => { setImmediate(() => { throw new Error("stray"); }); await new Promise((r) => setTimeout(r, 50)); });';
  expect(await ended({ "a.test.ts": stray })).toMatchObject({ line: "1 passed, 1 failed, 0 skipped" });
});

it("adds its counts to the file that .ci/run names", async () => {
  const folder = newFolder();
  const counts = join(folder, "counts");
  for (const lane of ["a", "b"])
    await ended({ "a.test.ts": `it("${lane}", () => {});` }, { BRIDGEHEAD_COUNTS: counts });
  expect(readFileSync(counts, "utf8")).toBe("1 passed, 0 failed, 0 skipped\n".repeat(2));
});

it("adds one line for each failure to that file", async () => {
  const folder = newFolder();
  const counts = join(folder, "counts");
  const stray = 'setImmediate(() => { throw new Error("stray"); }); await new Promise((r) => setTimeout(r, 50));';
  const files = {
    "a.test.ts": `import { describe } from "vitest"; describe("A", () => { it("b", () => { throw new Error("x\\ny"); }); });`,
    "b.test.ts": 'import "absent"; it("a", () => {});',
    "c.test.ts": `it("c", async () => { ${stray} });`,
  };
  await ended(files, { BRIDGEHEAD_COUNTS: counts });
  const [line, ...failures] = readFileSync(counts, "utf8").trimEnd().split("\n");
  expect(line).toBe("1 passed, 3 failed, 0 skipped");
  expect(failures.toSorted()).toEqual([
    "failed: a.test.ts > A > b: x",
    expect.stringMatching(/^failed: b\.test\.ts: .*absent/),
    "failed: outside of tests: stray",
  ]);
});

it("fails a run with skipped tests where none may be skipped", async () => {
  const files = { "a.test.ts": 'it("a", () => {}); it.skip("b", () => {});' };
  expect(await ended(files)).toEqual({ line: "1 passed, 0 failed, 1 skipped", code: 0 });
  const strict = await ended(files, { BRIDGEHEAD_REQUIRE_ALL: "1" });
  expect(strict).toEqual({ line: "1 passed, 0 failed, 1 skipped", code: 1 });
});
