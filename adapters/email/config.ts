// The configuration keys of an email channel. Each description is the question that the key answers. The
// example configuration and the JSON Schema are generated from the descriptions.

import { configError, hostPattern, type Remark, units } from "bridgehead/contract";
import * as z from "zod";
import { serversOf } from "./providers.ts";

const { duration, size } = units(z);

const secret = (question: string) => z.string().min(1).describe(question).meta({ secret: true });

const host = (question: string) =>
  z
    .string()
    .min(1)
    .refine((text) => hostPattern.test(text), {
      error: "must be a host name or an address alone",
      params: { fix: "write it like mail.example.com; the port has a key of its own, port" },
    })
    // For editors, which read the JSON Schema.
    .meta({ pattern: hostPattern.source })
    .describe(question);
const mailAddress = z
  .string()
  .regex(/^[^@\s<>"',;:]+@[^@\s<>"',;:]+$/, "expected an address such as support@example.com")
  .toLowerCase();

/** `support@example.com`, or `@example.com` for a whole domain. */
const addressOrDomain = z
  .string()
  .regex(/^[^@\s]*@[^@\s]+$/, "expected an address such as group@example.com, or @example.com")
  .toLowerCase();

const oauth2 = z
  .strictObject({
    token_url: z
      .union([z.enum(["google", "microsoft"]), z.url()])
      .describe("Which issuer grants access tokens? `google`, `microsoft`, or the URL of a token endpoint."),
    client_id: z.string().min(1).describe("What is the client id of the application at the issuer?"),
    client_secret: secret("What is the client secret? Public clients have none.").optional(),
    grant: z
      .enum(["refresh_token", "client_credentials"])
      .prefault("refresh_token")
      .describe(
        "Which grant is used? `refresh_token`: the user of the mailbox consented once; `client_credentials`: the application itself (Microsoft app-only).",
      ),
    refresh_token: secret(
      "Which refresh token was granted for this mailbox? A token rotated by the issuer is stored; a token that is changed here takes precedence.",
    ).optional(),
    tenant: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9.-]*$/, "expected a tenant such as contoso.onmicrosoft.com, or its id")
      .optional()
      .describe("microsoft: which tenant? Default: common, which is not valid for client_credentials."),
    scope: z.string().optional().describe("Which scopes are requested? Default: the issuer's scopes for mail."),
  })
  .superRefine((value, context) => {
    const wants = (key: string, why: string) =>
      context.addIssue({
        code: "custom",
        path: [key],
        message: `is missing: ${why}`,
        params: { fix: `add ${key}` },
      });
    if (value.grant === "refresh_token" && value.refresh_token === undefined)
      wants("refresh_token", "grant: refresh_token needs it");
    if (value.grant === "client_credentials" && value.client_secret === undefined)
      wants("client_secret", "grant: client_credentials needs it");
    if (value.grant === "client_credentials" && value.token_url === "microsoft" && value.tenant === undefined)
      wants("tenant", "Microsoft issues no tokens to an application without its tenant");
    if (value.grant === "client_credentials" && value.token_url === "google")
      context.addIssue({
        code: "custom",
        path: ["grant"],
        message: "is not offered by google",
        params: { fix: "use grant: refresh_token" },
      });
  })
  .describe("How are access tokens obtained, for providers that do not accept passwords?");

const tls = z
  .enum(["implicit", "starttls", "none"])
  .prefault("implicit")
  .describe("How is the connection encrypted? `none` is rejected for every host except loopback.");
const ca = z
  .string()
  .optional()
  .describe("Which private CA signs the server's certificate? The path of a file, or the PEM text.");

/** `tls: none` would send the password in clear text over the network. */
const noClearText = (server: { host: string; tls: string }) => server.tls !== "none" || isLoopback(server.host);
const clearTextProblem = { path: ["tls"], error: "tls: none is only allowed for localhost" };

const imap = z
  .strictObject({
    host: host("Where is the IMAP server?"),
    port: z.int().min(1).max(65_535).prefault(993).describe("Which port?"),
    tls,
    user: z.string().min(1).describe("What is the user name of the account?"),
    password: secret("What is its password (often an app password)?").optional(),
    oauth2: oauth2.optional(),
    mailbox: z.string().min(1).prefault("INBOX").describe("Which mailbox (folder) is read?"),
    idle: duration.prefault("4m").describe("How often is IDLE renewed? Some providers close idle connections early."),
    poll: duration.prefault("60s").describe("How often is the mailbox polled for mail that IDLE did not announce?"),
    ca,
  })
  .refine(noClearText, clearTextProblem)
  .refine((server) => (server.password === undefined) !== (server.oauth2 === undefined), {
    path: ["password"],
    error: "give either password or oauth2",
  });

const smtp = z
  .strictObject({
    host: host("Where is the SMTP submission server?"),
    port: z.int().min(1).max(65_535).prefault(465).describe("Which port? 465 for implicit TLS, 587 for starttls."),
    tls,
    user: z.string().min(1).optional().describe("What is the user name of the account? Default: the one of imap."),
    password: secret("What is its password? Default: the one of imap.").optional(),
    oauth2: oauth2.optional(),
    login: z
      .boolean()
      .prefault(true)
      .describe("Is authentication used? `false` for a relay that accepts this machine's address."),
    from_name: z.string().optional().describe("Which display name does From have? Default: the agent's sender name."),
    connections: z
      .int()
      .min(1)
      .max(20)
      .prefault(10)
      .describe(
        "How many concurrent connections? Fewer are used while the server refuses more. Microsoft allows three, so at most three are opened there.",
      ),
    timeout: duration.prefault("2m").describe("How long do we wait for a response of the server (timeout)?"),
    ca,
  })
  .refine(noClearText, clearTextProblem);

const mark = z
  .strictObject({
    with: z
      .enum(["flag", "keyword", "move", "none"])
      .prefault("keyword")
      .describe(
        "How is processed mail marked in the mailbox? `flag` sets \\Seen, `keyword` an invisible keyword, `move` moves it.",
      ),
    keyword: z
      .string()
      .regex(/^[A-Za-z$][A-Za-z0-9_$-]*$/)
      .prefault("$Bridgehead")
      .describe("Which keyword?"),
    folder: z.string().min(1).prefault("Archive").describe("To which existing folder is it moved?"),
  })
  .prefault({});

const senderAuth = z
  .strictObject({
    mode: z
      .enum(["off", "tag", "require"])
      .prefault("off")
      .describe(
        "Is the sender authenticated? `tag` adds the result to the question, `require` rejects mail that is not authenticated. With `off` a Reply-To is used only in the domain of From.",
      ),
    by: z
      .enum(["mailauth", "header"])
      .prefault("mailauth")
      .describe(
        "Which check is used? `mailauth`: the daemon verifies DKIM and DMARC; `header`: the result of the receiving server.",
      ),
    server: z
      .string()
      .min(1)
      .optional()
      .describe(
        "by header: which authserv-id does the receiving server write into Authentication-Results? `microsoft365` and `icloud` select the formats of these providers.",
      ),
    dns: z
      .array(z.string().min(1))
      .optional()
      .describe("by mailauth: which name servers are used? Default: those of the system."),
  })
  .refine((auth) => auth.mode === "off" || auth.by !== "header" || auth.server !== undefined, {
    path: ["server"],
    error: "by: header needs the server's name",
  })
  .prefault({});

const attachments = z
  .strictObject({
    name_to_agent: z
      .boolean()
      .prefault(true)
      .describe("Does the question to the agent contain the names of attached files?"),
    max_count: z.int().min(0).prefault(15).describe("How many attachments of one mail are stored?"),
    max_bytes: size.prefault("20MB").describe("How large may an attachment be to be stored?"),
    max_sent_bytes: size.prefault("10MB").describe("How large may the attachments of one outbound mail be in total?"),
  })
  .prefault({});

const canary = z
  .strictObject({
    every: duration
      .refine((ms) => ms >= 600_000, "must be at least 10m")
      .prefault("6h")
      .describe("How often is it sent? At least 10m."),
    within: duration
      .prefault("10m")
      .describe(
        "How soon must it be back before a warning is raised? Responders are notified after another escalation.down_after.",
      ),
  })
  .refine(({ every, within }) => within < every, { path: ["within"], error: "must be shorter than every" });

export const config = z
  .strictObject({
    imap,
    smtp,
    address: mailAddress.optional().describe("Which address does this channel have? Default: imap.user."),
    aliases: z.array(mailAddress).prefault([]).describe("Which further addresses deliver to this mailbox?"),
    reply: z
      .enum(["sender", "all"])
      .prefault("sender")
      .describe(
        "Which recipients receive the reply? `all` includes To and Cc: all of them when From is authenticated, otherwise those in its domain.",
      ),
    bcc: z
      .enum(["refuse", "answer"])
      .prefault("refuse")
      .describe("What happens to mail that has our address in Bcc only?"),
    mark,
    sent_folder: z
      .string()
      .min(1)
      .prefault("auto")
      .describe(
        "Where are copies of sent mail stored? `auto`: the Sent folder, unless the provider stores copies itself; `none`; or a folder.",
      ),
    provider_files_sent: z
      .union([z.boolean(), z.literal("auto")])
      .prefault("auto")
      .describe("Does the provider store sent mail in the Sent folder itself? `auto` knows the large providers."),
    first_start: z
      .strictObject({
        history: duration
          .prefault("0s")
          .describe("On the very first start: how old may mail be that is still answered?"),
      })
      .prefault({}),
    canary: canary
      .optional()
      .describe(
        "Is a mail sent to the own mailbox regularly, to prove that mail is delivered? It is deleted when it arrives, and the agent never sees it. Default: no.",
      ),
    max_size: size
      .prefault("25MB")
      .describe(
        "How large may a mail be to be downloaded completely? Of larger mail only the text and small attachments are downloaded.",
      ),
    attachments,
    sender_auth: senderAuth,
    automatic_senders: z
      .array(addressOrDomain)
      .prefault([])
      .describe("Which automatic senders are answered? Addresses, or @domain."),
    contact_forms: z
      .array(addressOrDomain)
      .prefault([])
      .describe(
        "Which From addresses do contact forms have? Their Reply-To is the customer's address, although it can be forged. Addresses, or @domain.",
      ),
    accept_lists: z
      .array(mailAddress)
      .prefault([])
      .describe(
        "Which groups, lists and forwarders may deliver mail? The author is answered. Mail of other lists is ignored. Addresses such as group@example.com.",
      ),
    token_address: z
      .boolean()
      .prefault(false)
      .describe(
        "Does Reply-To contain a token of the conversation (user+token@)? Requires a server with plus addresses.",
      ),
    body_marker: z
      .boolean()
      .prefault(true)
      .describe(
        "Does each mail end with a short reference line? It identifies the conversation where a relay changes Message-IDs.",
      ),
  })
  .refine((channel) => channel.address !== undefined || channel.imap.user.includes("@"), {
    path: ["address"],
    error: "imap.user is no address, so address must be given",
  });

/** The configuration block as written, with defaults filled in. */
export type EmailConfig = z.output<typeof config>;
export type OAuth2Config = z.output<typeof oauth2>;

/** True for names that cannot leave this machine. */
function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Ports that are registered for one kind of TLS (RFC 8314; RFC 6409). */
const registered: Readonly<Record<number, "implicit" | "starttls">> = {
  993: "implicit",
  143: "starttls",
  465: "implicit",
  587: "starttls",
  25: "starttls",
};

const ports = { imap: { implicit: 993, starttls: 143 }, smtp: { implicit: 465, starttls: 587 } } as const;

/** Called with a parsed configuration block. Pure. */
export function review(config: EmailConfig): readonly Remark[] {
  return [...wrongTls("imap", config), ...wrongTls("smtp", config), ...wrongServers(config), ...password(config)];
}

function wrongTls(side: "imap" | "smtp", config: EmailConfig): readonly Remark[] {
  const { port, tls } = config[side];
  const expected = registered[port];
  if (expected === undefined || tls === "none" || tls === expected) return [];
  const fix = `use tls: ${expected} with port ${port}, or port: ${ports[side][tls]} with tls: ${tls}`;
  return [configError([side, "port"], `${port} does not go with tls: ${tls}`, fix)];
}

/** Detects an IMAP host in the SMTP block and the reverse, for known providers. */
function wrongServers({ imap, smtp }: EmailConfig): readonly Remark[] {
  const remarks: Remark[] = [];
  const reading = serversOf(imap.host);
  if (reading !== null && imap.host.toLowerCase() === reading.smtp)
    remarks.push(configError(["imap", "host"], `${imap.host} is the provider's SMTP server`, `use ${reading.imap}`));
  const sending = serversOf(smtp.host);
  if (sending !== null && smtp.host.toLowerCase() === sending.imap)
    remarks.push(configError(["smtp", "host"], `${smtp.host} is the provider's IMAP server`, `use ${sending.smtp}`));
  return remarks;
}

function password({ imap }: EmailConfig): readonly Remark[] {
  if (imap.password === undefined || serversOf(imap.host)?.passwords !== false) return [];
  const fix = "replace it by oauth2: { token_url: microsoft, client_id: ..., refresh_token: ... }";
  return [configError(["imap", "password"], "Microsoft takes no passwords for IMAP any more", fix)];
}
