// Normalizes an email address, and the folder that a channel reads, to one canonical name.

import type { ExclusiveResource } from "bridgehead/contract";
import type { EmailConfig } from "./config.ts";

import { asciiAddress } from "./parse/headers.ts";

/** RFC 5321, 4.5.3.1.3. */
const longest = 254;
const shape = /^[^\s@<>()[\],;:"\\]+@[^\s@<>()[\],;:"\\]+$/;

/** `AdapterDefinition.address`: returns one mailbox in lower case, its domain as A-labels. Returns null
 *  for anything else (a list, an address with a display name). */
export function mailbox(text: string): string | null {
  const address = asciiAddress(text.trim().toLowerCase());
  return address.length <= longest && shape.test(address) ? address : null;
}

/** Host names of the same service. */
const sameServer: Readonly<Record<string, string>> = {
  "imap.googlemail.com": "imap.gmail.com",
  "outlook.office.com": "outlook.office365.com",
};

/** `AdapterDefinition.exclusive`: returns one name for the folder of an account on a server, however it
 *  is written. Ports 143 and 993 count as the same server. Any other port is a separate server. */
export function mailboxOf(
  imap: Pick<EmailConfig["imap"], "host" | "port" | "user" | "mailbox">,
): ExclusiveResource {
  const written = imap.host.trim().toLowerCase().replace(/\.$/, "");
  // URL converts an internationalized name to A-labels, and any form of an IPv6 address to one form.
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
