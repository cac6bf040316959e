// The questions of `init`. Each function takes the answers so far, asks for what is missing until it is verified,
// and returns the answers with its own.

import { resolve } from "node:path";
import { exitCodes, fail } from "../io.ts";
import type { Answers, MailLogin } from "./answers.ts";
import { discover, type MailProvider, type MailServers, providerOfServer, readServer } from "./discovery.ts";
import { Stopped } from "./prompter.ts";
import type { InitDialogue } from "./run.ts";
import { type BrowserDialogue, signIn, signInByBrowser } from "./sign-in.ts";
import { isPlatform, type Rejection, rejected, verifyMailbox, verifyModel, verifyPlatform } from "./verify.ts";

const isAddress = (text: string): boolean => text.length <= 254 && /^[^@\s<>"',;:]+@[^@\s<>"',;:]+$/.test(text);

type Guesses = Parameters<typeof verifyMailbox>[0]["servers"];

/** Reports a rejection. Throws it, with the exit code, when no other answer can be given. */
function retry({ prompter }: InitDialogue, rejection: Rejection, code: number = exitCodes.failed): void {
  const text = `${rejection.reason}\n${rejection.remedy}`;
  if (!prompter.asks) fail(text, code);
  prompter.report("failed", text);
}

/** Questions 1 and 2: the address, and the password or the sign-in. */
export async function askMailbox(before: Answers, dialogue: InitDialogue): Promise<Answers> {
  if (before.login && before.servers) return before;
  const { options, prompter, signal, cwd } = dialogue;
  let given = options.address;
  if (given !== undefined && !isAddress(given)) {
    const wrong = rejected(`--address: ${given} is no email address`, "write it like support@example.com");
    retry(dialogue, wrong, exitCodes.usage);
    given = undefined;
  }
  given ??= await prompter.text("Which mailbox is to be answered?", "support@example.com", (text) =>
    isAddress(text) ? undefined : "Write an address such as support@example.com",
  );
  const address = given.toLowerCase();
  const user = options.user ?? address;
  const ca = options.ca === undefined ? {} : { ca: resolve(cwd, options.ca) };
  if (options.ca !== undefined) await dialogue.read("--ca", options.ca);
  let found = await serversFor(address, dialogue);
  let useOptions = true;
  let login: MailLogin | null = null;
  for (;;) {
    login ??= await askLogin(user, found.provider, dialogue, useOptions);
    prompter.report("note", `logging in to ${found.imap.host} and ${found.smtp.host}`);
    const result = await verifyMailbox({ address, user, ...ca, login, servers: found }, dialogue);
    signal.throwIfAborted();
    if (result.ok) {
      const { imap, smtp } = result.value;
      prompter.report(
        "done",
        `IMAP ${imap.host}:${imap.port} (${imap.tls}), SMTP ${smtp.host}:${smtp.port} (${smtp.tls})`,
      );
      return { ...before, address, user, ...ca, login, servers: result.value };
    }
    retry(dialogue, result);
    // The login was not judged by a wrong server.
    if (result.wants === "servers") found = { ...(await askServers(dialogue)), provider: null };
    else login = null;
    useOptions = false;
  }
}

async function serversFor(
  address: string,
  dialogue: InitDialogue,
): Promise<Guesses & { readonly provider: MailProvider | null }> {
  const { options, prompter, network, signal } = dialogue;
  const written = { imap: serverOption(options.imap, "imap"), smtp: serverOption(options.smtp, "smtp") };
  let found: MailServers | null = null;
  if (!written.imap || !written.smtp) {
    prompter.report("note", `looking for the servers of ${address.slice(address.indexOf("@") + 1)}`);
    found = await discover(address, network.lookup(dialogue));
    signal.throwIfAborted();
  }
  if (found) {
    const { imap, smtp, source } = found;
    prompter.report(
      "note",
      `${imap.host}:${imap.port} and ${smtp.host}:${smtp.port}, from ${source}; the password is sent there`,
    );
  }
  const [imap, smtp] = [written.imap ?? found?.imap, written.smtp ?? found?.smtp];
  if (imap && smtp) return { imap, smtp, provider: found?.provider ?? providerOfServer(imap.host) };
  const unknown = rejected(
    `no server is known for ${address}: no DNS SRV records, no autoconfiguration`,
    "give --imap <host:port> and --smtp <host:port>",
  );
  if (!prompter.asks) fail(`${unknown.reason}\n${unknown.remedy}`);
  prompter.report("note", unknown.reason);
  return { ...(await askServers(dialogue)), provider: null };
}

function serverOption(text: string | undefined, side: "imap" | "smtp"): Guesses["imap"] | null {
  if (text === undefined) return null;
  const server = readServer(text, side);
  if (server === null) fail(`--${side}: ${text} is no server: write it like ${side}.example.com:993`, exitCodes.usage);
  return server;
}

/** Part of question 1, when the servers cannot be discovered. */
async function askServers({ prompter }: InitDialogue): Promise<Guesses> {
  const ask = async (side: "imap" | "smtp", hint: string): Promise<Guesses["imap"]> => {
    const valid = (text: string) => (readServer(text, side) ? undefined : `Write it like ${hint}`);
    const server = readServer(await prompter.text(`${side.toUpperCase()} server and port?`, hint, valid), side);
    if (server === null) throw new Error("an invalid server was accepted");
    return server;
  };
  return { imap: await ask("imap", "imap.example.com:993"), smtp: await ask("smtp", "smtp.example.com:465") };
}

async function askLogin(
  user: string,
  provider: MailProvider | null,
  dialogue: InitDialogue,
  useOptions: boolean,
): Promise<MailLogin> {
  const { options, prompter } = dialogue;
  if (useOptions && options.imapPasswordFile !== undefined) {
    const password = await dialogue.read("--imap-password-file", options.imapPasswordFile);
    return { kind: "password", password };
  }
  const issuer = provider?.oauth ?? null;
  if (issuer !== null && (provider?.passwords === false || options.oauthClientId !== undefined))
    return signInAt(issuer, dialogue);
  if (options.oauthClientId !== undefined && !prompter.asks)
    fail("--oauth-client-id: the sign-in is known for Google and Microsoft only");
  const hint = provider?.appPasswords ? `Create an app password: ${provider.appPasswords}` : undefined;
  return { kind: "password", password: await prompter.secret(`Password of ${user}?`, hint) };
}

async function signInAt(issuer: "google" | "microsoft", dialogue: InitDialogue): Promise<MailLogin> {
  const { options, prompter, network, signal } = dialogue;
  for (;;) {
    const clientId =
      options.oauthClientId ??
      (await prompter.text(
        "Application (client) id? Microsoft accepts no passwords for IMAP.",
        "register one at https://entra.microsoft.com, App registrations, with public client flows",
        (text) => (text === "" ? "Register an application and paste its id" : undefined),
      ));
    const secretFile = options.oauthClientSecretFile;
    const clientSecret =
      secretFile === undefined ? undefined : await dialogue.read("--oauth-client-secret-file", secretFile);
    const tenant = options.oauthTenant;
    const { tokenUrl } = network.endpoints[issuer](tenant ?? "common");
    try {
      const refreshToken = await refreshTokenOf(issuer, { clientId, clientSecret, tenant }, dialogue);
      const known = new URL(tokenUrl).protocol === "https:";
      return {
        kind: "oauth",
        issuer: known ? issuer : tokenUrl,
        clientId,
        refreshToken,
        ...(tenant !== undefined && { tenant }),
        ...(clientSecret !== undefined && { clientSecret }),
      };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Stopped) throw error;
      const { message } = error as Error;
      const again =
        issuer === "google"
          ? "run init again with --imap-password-file, or without --oauth-client-id"
          : "check the application's registration";
      retry(dialogue, rejected(`the sign-in failed: ${message}`, again));
      if (options.oauthClientId !== undefined) fail(again);
    }
  }
}

interface SignInClient {
  readonly clientId: string;
  readonly clientSecret: string | undefined;
  readonly tenant: string | undefined;
}

/** Microsoft: by device code. Google: by a browser on this machine, or by the address at which another one ended. */
function refreshTokenOf(
  issuer: "google" | "microsoft",
  { tenant, ...client }: SignInClient,
  { prompter, network, signal }: InitDialogue,
): Promise<string> {
  if (issuer === "microsoft") {
    const show = (page: string, code: string) =>
      prompter.report("note", `Open ${page} in any browser, enter the code ${code}, and sign in as the mailbox.`);
    return signIn({ ...network.endpoints.microsoft(tenant ?? "common"), ...client }, show, signal);
  }
  const browser: BrowserDialogue = {
    show: (page) => prompter.report("note", `Open this page in a browser and sign in as the mailbox:\n${page}`),
    ...(prompter.asks && {
      paste: (wrong, until) =>
        prompter.text(
          "Does the browser run on another machine? Then paste the address of the page that it cannot open",
          "http://127.0.0.1:…/?state=…",
          wrong,
          until,
        ),
    }),
  };
  return signInByBrowser({ ...network.endpoints.google(), ...client }, browser, signal);
}

/** Questions 3 and 4: the model or the platform, and its key. */
export async function askAnswerer(before: Answers, dialogue: InitDialogue): Promise<Answers> {
  if (before.answerer) return before;
  const { options, prompter, signal } = dialogue;
  const written = options.platformUrl ?? options.modelUrl;
  let [url = "", name = options.modelName] = written === undefined ? [] : [trimmed(written)];
  const keyFile = options.platformUrl === undefined ? options.modelKeyFile : options.platformKeyFile;
  const option = options.platformUrl === undefined ? "--model-key-file" : "--platform-key-file";
  let lastHost: string | undefined;
  let key = keyFile === undefined ? undefined : await dialogue.read(option, keyFile);
  for (;;) {
    if (url === "") {
      const line = await prompter.text(
        "Who answers? URL of an OpenAI-compatible model and its name, or URL of an agent platform",
        "http://127.0.0.1:11434/v1 llama3.2",
        (text) => (isWebUrl(text.split(/\s+/)[0] ?? "") ? undefined : "Begin with http:// or https://"),
      );
      const [first = "", second] = line.split(/\s+/);
      // The key of one endpoint is not sent to another.
      if (URL.parse(first)?.host !== lastHost) key = undefined;
      [url, name] = [trimmed(first), second];
    }
    if (!isWebUrl(url)) fail(`${url} is no URL: write it like https://api.example.com/v1`, exitCodes.usage);
    prompter.report("note", `asking ${new URL(url).host}`);
    const platform = options.platformUrl !== undefined || (written === undefined && (await isPlatform(url, dialogue)));
    signal.throwIfAborted();
    if (platform) key ??= await prompter.secret("API key of the agent?");
    const result = platform
      ? await verifyPlatform(url, key ?? "", dialogue)
      : await verifyModel({ url, name, key }, dialogue);
    signal.throwIfAborted();
    if (result.ok) {
      const { value } = result;
      prompter.report("done", value.kind === "model" ? `the model ${value.name} answers` : `the agent's key is valid`);
      return { ...before, answerer: value };
    }
    if (result.wants === "key" && key === undefined && prompter.asks) {
      key = await prompter.secret(`API key of ${new URL(url).host}?`);
      continue;
    }
    retry(dialogue, result);
    if (result.wants === "key") key = await prompter.secret(`API key of ${new URL(url).host}?`);
    else {
      lastHost = new URL(url).host;
      [url, name] = ["", undefined];
    }
  }
}

const trimmed = (url: string): string => url.trim().replace(/\/{1,8}$/, "");
const isWebUrl = (text: string): boolean => /^https?:$/.test(URL.parse(text)?.protocol ?? "");

/** Question 5: the first responder. */
export async function askResponder(before: Answers, dialogue: InitDialogue): Promise<Answers> {
  if (before.responder !== undefined) return before;
  const { options, prompter } = dialogue;
  if (options.responder === false) return { ...before, responder: null };
  const wrong = (text: string): string | undefined => {
    if (text === "") return undefined;
    if (!isAddress(text)) return "Write an address such as anna@example.com, or nothing";
    return text.toLowerCase() === before.address ? "The mailbox cannot be its own responder" : undefined;
  };
  let { responder } = options;
  const problem = responder === undefined ? undefined : wrong(responder);
  if (problem !== undefined) {
    const rejection = rejected(`--responder: ${problem}`, "give another address, or --no-responder");
    retry(dialogue, rejection, exitCodes.usage);
    responder = undefined;
  }
  const test = options.testResponder && options.roundTrip ? "; receives a test notification" : "";
  responder ??= await prompter.text(
    "Who is notified when a customer needs a human?",
    `an email address${test}; empty: no responder`,
    wrong,
  );
  return { ...before, responder: responder === "" ? null : responder };
}
