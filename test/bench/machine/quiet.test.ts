import { describe, expect, test } from "vitest";
import { type MachineLoad, waitUntilQuiet, warnWhenBusy } from "./quiet.ts";

/** A machine of two processors whose load follows the list, and keeps the last value. */
function machineWith(loads: readonly number[]) {
  const printed: string[] = [];
  let waited = 0;
  let at = 0;
  const machine: MachineLoad = {
    processors: 2,
    load: () => loads[Math.min(at, loads.length - 1)] ?? 0,
    sleep: (ms) => {
      waited += ms;
      at += 1;
      return Promise.resolve();
    },
    print: (text) => void printed.push(text),
  };
  return { machine, printed, waited: () => waited };
}

describe("published figures", () => {
  test("are measured at once on a quiet machine", async () => {
    const { machine, printed, waited } = machineWith([0.59]);
    await waitUntilQuiet(machine);
    expect({ printed, waited: waited() }).toEqual({ printed: [], waited: 0 });
  });

  test("wait until the load average is below 0.3 per processor", async () => {
    const { machine, printed, waited } = machineWith([2, 1, 0.6, 0.5]);
    await waitUntilQuiet(machine);
    expect(printed).toEqual([
      "The machine is busy (load average 2.0, quiet below 0.6): waiting for at most 10 minutes.",
    ]);
    expect(waited()).toBe(15_000);
  });

  test("are refused when the machine is busy for ten minutes", async () => {
    const { machine, waited } = machineWith([3]);
    await expect(waitUntilQuiet(machine)).rejects.toThrow("still busy after 10 minutes (load average 3.0");
    expect(waited()).toBe(600_000);
  });
});

describe("other figures", () => {
  test("come with a warning on a busy machine only", () => {
    const [busy, quiet] = [machineWith([0.6]), machineWith([0.2])];
    warnWhenBusy(busy.machine);
    warnWhenBusy(quiet.machine);
    expect(busy.printed).toHaveLength(1);
    expect(busy.printed[0]).toMatch(/^Warning: the machine is busy/);
    expect(quiet.printed).toEqual([]);
  });
});
