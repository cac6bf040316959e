// An address as a person writes it, and the folder that a channel reads as one name.

import type { ExclusiveResource } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";

import { asciiAddress } from "./parse/headers.ts";

/** RFC 5321, 4.5.3.1.3. */
const longest = 254;
const shape = /^[^\s@<>()[\],;:"\\]+@[^\s@<>()[\],;:"\\]+$/;

/** `AdapterDefinition.address`: one mailbox in lower case, its domain as A-labels; null for anything else (a list, a name beside it). */
export function mailbox(text: string): string | null {
  const address = asciiAddress(text.trim().toLowerCase());
  return address.length <= longest && shape.test(address) ? address : null;
}

/** Names of one and the same service. */
const sameServer: Readonly<Record<string, string>> = {
  "imap.googlemail.com": "imap.gmail.com",
  "outlook.office.com": "outlook.office365.com",
};

/** `AdapterDefinition.exclusive`: the folder of an account on a server, however it is written. Ports 143 and 993 are two
 *  doors of one server; any other port is a server of its own. */
export function mailboxOf(
  imap: Pick<EmailConfig["imap"], "host" | "port" | "user" | "mailbox">,
): ExclusiveResource {
  const written = imap.host.trim().toLowerCase().replace(/\.$/, "");
  // URL turns an internationalized name into its A-labels, and any form of an IPv6 address into one.
  const url = URL.parse(`http://${written.includes(":") ? `[${written.replace(/^\[|\]$/g, "")}]` : written}`);
  const name = url?.hostname ?? written;
  const host = sameServer[name] ?? name;
  const port = imap.port === 143 || imap.port === 993 ? "" : `:${imap.port}`;
  const user = imap.user.trim().normalize("NFC").toLowerCase();
  const folder = /^inbox$/i.test(imap.mailbox) ? "INBOX" : imap.mailbox.normalize("NFC");
  return {
    id: `imap:${host}${port}/${user}/${folder}`,
    name: `the folder ${folder} of ${user} on ${host}`,
    key: ["imap", "user"],
  };
}
