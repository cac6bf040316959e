// How the SMTP server is found by its name.

import { Resolver } from "node:dns";
import { expect, it, onTestFinished } from "vitest";
import { adapterFor, attempt, replyTo, settingsFor } from "../../../support/email/adapter.ts";
import { startSmtpPeer } from "../../../support/email/smtp-server.ts";

it("is asked of the resolver of the system, as for all other servers, and of no name server", async () => {
  const peer = await startSmtpPeer({ users: { support: "secret" } });
  onTestFinished(() => peer.close());
  const { resolve4, resolve6 } = Resolver.prototype;
  onTestFinished(() => void Object.assign(Resolver.prototype, { resolve4, resolve6 }));
  const asked: string[] = [];
  const note = (name: string, found: (error: null, addresses: string[]) => void) => {
    asked.push(name);
    found(null, ["192.0.2.1"]); // leads nowhere
  };
  Object.assign(Resolver.prototype, { resolve4: note, resolve6: note });
  const { adapter } = adapterFor(settingsFor(1, peer.port, { smtp: { host: "localhost" } }));
  const [draft] = adapter.outbound?.compose(replyTo()) ?? [];
  if (!adapter.outbound || draft === undefined) throw new Error("nothing to send");
  expect([(await adapter.outbound.send(draft, attempt())).kind, asked]).toEqual(["sent", []]);
});
