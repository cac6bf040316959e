// A daemon that was killed checks the file of its store at the next start, and is not ready when it is damaged.

import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { bridgehead } from "../../support/machine/command.ts";
import { adminOf, configureIdle, type Daemon, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";
import { damageTable } from "../../support/store/damage.ts";

it("reports bytes that were overwritten while it was dead, although no statement reads them", async () => {
  const folder = newFolder();
  const store = join(folder, "store.db");
  const config = configureIdle(folder);
  const start = async () => {
    const daemon = startDaemon({ config, plant: ["quick-store-check"] });
    onTestFinished(() => daemon.send("SIGKILL"));
    expect(await daemon.ready).toBe(true);
    return daemon;
  };
  const says = (daemon: Daemon, text: string) =>
    expect.poll(() => daemon.lines.map(({ message }) => message)).toContain(text);
  const readiness = async (daemon: Daemon) => {
    const response = await fetch(`${adminOf(daemon)}/readyz`);
    return [response.status, ((await response.json()) as { readonly store: unknown }).store];
  };

  // The first one copies its log into the file at its end, so that the pages are not read from the log later.
  expect(await (await start()).stop()).toMatchObject({ code: 0 });
  const killed = await start();
  expect(killed.lines.map(({ message }) => message).filter((message) => message.startsWith("store "))).toEqual([]);
  killed.send("SIGKILL");
  await killed.ended;
  const sound = await start();
  await says(sound, "store check passed");
  expect((await readiness(sound))[0]).toBe(200);
  sound.send("SIGKILL");
  await sound.ended;
  damageTable(store, "blobs");
  const damaged = await start();
  await says(damaged, "store damaged");
  const problem = expect.stringMatching(
    /^the store .+ is damaged .+ restore the newest backup with the command restore$/,
  );
  expect(await readiness(damaged)).toEqual([503, problem]);
  expect(damaged.lines).toContainEqual(expect.objectContaining({ message: "store damaged", reason: problem }));
  await damaged.stop();
  const doctor = await bridgehead(["doctor", "--config", config, "--only", "store-damaged"]);
  expect(doctor.out).toContain("store-damaged");
});
