import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Runs vitest as its own process over the given files and returns its output's last line. */
async function lastLine(files: Record<string, string>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "closing-line-"));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(folder, name), `import { it } from "vitest";\n${text}`);
  const args = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--root", folder];
  const reporter = `--reporter=${join(root, "test/closing-line.ts")}`;
  const out = await new Promise<string>((resolve) => {
    execFile(process.execPath, [...args, reporter], (_error, stdout) => resolve(stdout));
  });
  rmSync(folder, { recursive: true });
  return out.trimEnd().split("\n").at(-1) ?? "";
}

it("counts what passed, failed and was skipped", async () => {
  const line = await lastLine({
    "a.test.ts":
      'it("a", () => {}); it("b", () => {}); it.skip("c", () => {}); it("d", () => { throw new Error("x"); });',
    "b.test.ts": 'it("e", () => {});',
  });
  expect(line).toBe("3 passed, 1 failed, 1 skipped");
});

it("counts a file that cannot be loaded, and an error outside of tests", async () => {
  expect(await lastLine({ "a.test.ts": 'import "absent"; it("a", () => {});' })).toBe(
    "0 passed, 1 failed, 0 skipped",
  );
  const stray =
    'it("a", async () => { setImmediate(() => { throw new Error("stray"); }); await new Promise((r) => setTimeout(r, 50)); });';
  expect(await lastLine({ "a.test.ts": stray })).toBe("1 passed, 1 failed, 0 skipped");
});
