// The shipped unit, judged by systemd's own tools.

import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { bridgehead } from "../support/machine/command.ts";
import { describeReal, need } from "../support/machine/debian.ts";
import { newFolder } from "../support/resources.ts";

const path = (name: string): string => fileURLToPath(new URL(`../../systemd/${name}`, import.meta.url));
const unit = readFileSync(path("bridgehead.service"), "utf8");
const folder = newFolder(afterAll);

const missing = await need("systemd", "/usr/bin/systemd-analyze");
const settings = (key: string): string[] =>
  [...unit.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, value]) => value ?? "");

describe("bridgehead.service", () => {
  it("is not restarted for what a restart cannot cure, and is for a defect", () => {
    const codes = settings("RestartPreventExitStatus").join(" ").split(" ").map(Number);
    const { usage, newerSchema, oldNode, config } = exitCodes;
    expect(codes.sort((a, b) => a - b)).toEqual([usage, newerSchema, oldNode, config]);
    expect(settings("Restart")).toEqual(["on-failure"]);
    // Never given up for good.
    expect(settings("StartLimitIntervalSec")).toEqual(["0"]);
  });

  it("waits for READY, watches, and gives the drain time to end", () => {
    expect(settings("Type")).toEqual(["notify"]);
    expect(settings("NotifyAccess")).toEqual(["all"]);
    expect(Number(settings("WatchdogSec")[0])).toBe(60);
    expect(Number(settings("TimeoutStopSec")[0])).toBeGreaterThan(20);
  });

  it("has the environment of the Dockerfile", () => {
    const dockerfile = readFileSync(fileURLToPath(new URL("../../Dockerfile", import.meta.url)), "utf8");
    // systemd quotes the whole assignment, Docker its value.
    const environment = settings("Environment").map((assignment) => assignment.replace(/^"(\w+=)/, '$1"'));
    for (const assignment of environment) expect(assignment).toMatch(/^\w+=(?:[^" ]+|"[^"]+")$/);
    expect(environment.map((assignment) => assignment.split("=")[0])).toEqual([
      "NODE_ENV",
      "NODE_OPTIONS",
      "MALLOC_ARENA_MAX",
      "MALLOC_MMAP_THRESHOLD_",
    ]);
    expect([...dockerfile.matchAll(/^ENV (.*)$/gm)].map(([, assignment]) => assignment)).toEqual(environment);
  });

  it("names no directive that Node.js cannot live with", () => {
    expect(settings("MemoryDenyWriteExecute")).toEqual([]);
  });

  describeReal("systemd's judgement of the unit", missing, () => {
    it("has an exposure of 1.5 at most", () => {
      const report = execFileSync(
        "systemd-analyze",
        ["security", "--offline=true", "--no-pager", path("bridgehead.service")],
        {
          encoding: "utf8",
        },
      );
      const exposure = /Overall exposure level for \S+: ([\d.]+)/.exec(report)?.[1];
      expect(Number(exposure)).toBeGreaterThan(0);
      expect(Number(exposure)).toBeLessThanOrEqual(1.5);
    });

    it("has no word it does not know", () => {
      const verify = (text: string): string => {
        const copy = join(folder, "bridgehead.service");
        writeFileSync(copy, text.replace(/^(Exec\w+)=bridgehead/gm, `$1=${process.execPath}`));
        const { stderr, status } = spawnSync("systemd-analyze", ["verify", "--man=no", copy], {
          encoding: "utf8",
        });
        // Other units of the machine may be complained of too.
        return status === null
          ? "did not end"
          : stderr
              .split("\n")
              .filter((line) => line.includes("bridgehead.service"))
              .join("\n");
      };
      expect(verify(unit)).toBe("");
      expect(verify(unit.replace("ProtectClock=", "ProtectClok="))).toContain("ProtectClok");
    });
  });

  it("is not installed for a configuration file that it cannot read", async () => {
    for (const [config, reason] of [
      ["bridgehead.yaml", "must be an absolute path"],
      [join(folder, "absent.yaml"), "there is no such file"],
    ] as const)
      expect(await bridgehead(["service", "install", "--config", config])).toMatchObject({
        code: exitCodes.config,
        err: expect.stringContaining(`${config}: ${reason}`),
      });
  });

  it("makes the user it runs as and the folders it needs", () => {
    expect(readFileSync(path("bridgehead.sysusers"), "utf8")).toMatch(/^u bridgehead /m);
    expect(readFileSync(path("bridgehead.tmpfiles"), "utf8")).toMatch(
      /^d \/var\/lib\/bridgehead +0700 bridgehead bridgehead /m,
    );
    expect(settings("User")).toEqual(["bridgehead"]);
  });
});
