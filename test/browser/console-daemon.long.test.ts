// The web console of a running daemon with a real mailbox: what an operator does in the browser reaches the customer.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { consoleContext } from "../../src/commands/run.ts";
import { createLoginLink } from "../../src/console/session.ts";
import { startConsole } from "../../src/console/start.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import { startMailDaemon } from "../support/daemon/mail-daemon.ts";
import { type Dovecot, startDovecot } from "../support/email/dovecot.ts";
import { describeReal, need, needChromium, startChromium, visit } from "../support/machine/debian.ts";
import { silentLog } from "../support/resources.ts";

const missing = (await needChromium()) ?? (await need("dovecot-imapd", "/usr/sbin/dovecot"));

describeReal("The web console of a running daemon", missing, () => {
  let browser: Browser;
  let dovecot: Dovecot;
  beforeAll(async () => {
    [browser, dovecot] = await Promise.all([startChromium(), startDovecot({ users: ["console"] })]);
  });
  afterAll(async () => {
    await browser?.close();
    await dovecot?.dispose();
  });

  it("shows why an email was not answered, releases it, and the customer gets the answer", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "console", channel: { deny: ["eve@*"] } });
    const context = consoleContext(daemon.app(), await daemon.config(), silentLog, standardTiming);
    const web = await startConsole({ context, listen: { host: "127.0.0.1", port: 0 } });
    onTestFinished(() => web.close());
    const token = await daemon.app().db.tx((q) => createLoginLink(q, standardTiming.console));
    const { page } = await visit(browser, `${web.url}/login/${token}`);
    await page.getByRole("button", { name: "Log in" }).click();
    const channel = page.getByRole("row", { name: new RegExp(`^${daemon.channel}`) });
    await channel.getByText("ready").waitFor();

    const mail = await daemon.write({ from: "eve@customer.example" });
    await page.getByRole("link", { name: "Refused", exact: true }).click();
    const row = page.getByRole("row", { name: /eve@customer\.example/ });
    await row.waitFor(); // by itself, when the mail has arrived
    expect(await row.textContent()).toContain("denied");
    await row.getByRole("checkbox").check();
    await page.getByRole("button", { name: "Answer selected" }).click();
    await page.getByRole("status").filter({ hasText: "1 will be answered." }).waitFor();
    expect((await daemon.replyTo(mail)).to).toEqual(["eve@customer.example"]);
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByText(/Answered 1/).waitFor();
  });
});
