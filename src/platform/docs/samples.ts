// Samples of every operation with curl and with bridgehead/client, for the description and the page.

import type { Operation } from "../../wire/operations/index.ts";
import { requestExamples } from "./examples.ts";

/** An entry of `x-codeSamples`, the extension that viewers of OpenAPI documents read. */
export interface CodeSample {
  readonly lang: "Shell" | "TypeScript";
  readonly label: "curl" | "bridgehead/client";
  readonly source: string;
}

/** The client's method of each operation. Its arguments are the path's parameters, and then the body. */
const methods: { readonly [operation: string]: string } = {
  getAgent: "agents.get",
  listAgentUsers: "agents.users",
  listAdminUsers: "agents.adminUsers",
  getStatistic: "agents.statistic",
  listUsersOfAgent: "agents.usersOf",
  listPlatformUsers: "agents.platformUsersOf",
  listEscalations: "agents.escalations",
  startConversation: "conversations.start",
  createConversation: "conversations.create",
  listConversations: "conversations.list",
  deleteConversations: "conversations.deleteAll",
  listConversationStates: "conversations.states",
  getConversation: "conversations.get",
  updateConversation: "conversations.update",
  setConversationMode: "conversations.setMode",
  sendMessage: "conversations.send",
  listMessages: "conversations.messages",
  sendMessageAsync: "conversations.sendAsync",
  getResponse: "conversations.response",
  sendManualMessage: "conversations.sendManual",
  createUploadUrl: "conversations.uploadUrl",
  getMessageFileUrl: "conversations.fileUrl",
  createUser: "users.create",
  searchUser: "users.search",
  getUser: "users.get",
  deleteUser: "users.delete",
  uploadFile: "files.upload",
  listFiles: "files.list",
  getFileContent: "files.content",
  addFileToAssistant: "files.addToAssistant",
  addFileToVectorStore: "files.addToVectorStore",
  addFileToVectorStoreAsync: "files.addToVectorStoreAsync",
  removeFileFromVectorStore: "files.removeFromVectorStore",
  deleteFile: "files.delete",
  deleteFiles: "files.deleteMany",
  registerWebhook: "webhooks.register",
  listWebhooks: "webhooks.list",
  deleteWebhook: "webhooks.delete",
  fireWebhook: "webhooks.fire",
  listDeliveries: "webhooks.deliveries",
  resendDelivery: "webhooks.resend",
};

/** Operations with one argument for the only field of the body. */
const unwrapped: ReadonlySet<string> = new Set(["setConversationMode", "deleteFiles", "fireWebhook"]);

/** Arguments of operations without a JSON body. */
const others: { readonly [operation: string]: string } = {
  searchUser: '{ fkId: "customer-7" }',
  uploadFile: '{ fileName: "shipping.md", bytes: await readFile("shipping.md") }',
};

/** Returns the samples of an operation. Path parameters are variables of the same name. */
export function codeSamples(id: string, { method, path, key, body, upload }: Operation): CodeSample[] {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name);
  const [example] = Object.values(requestExamples[id] ?? {});
  const [keyOption, variable, header] =
    key === "agent"
      ? ["agentKey", "AGENT_KEY", "Agent-Secret-Key"]
      : ["organizationKey", "ORGANIZATION_KEY", "Organization-Secret-Key"];
  const query = id === "searchUser" ? "?fkId=customer-7" : "";
  const shell = [
    `curl -X ${method} "https://platform.example.com${path.replace(/\{(\w+)\}/g, "$$$1")}${query}"`,
    `-H "${header}: $${variable}"`,
    ...(body ? ["-H 'content-type: application/json'", `-d '${JSON.stringify(example)}'`] : []),
    ...(upload ? ["-F 'file=@shipping.md'"] : []),
  ];
  const argument = unwrapped.has(id) ? Object.values(example ?? {})[0] : example;
  const given = [...names, others[id] ?? (body ? JSON.stringify(argument, null, 2) : "")].filter(Boolean);
  const client = [
    'import { createClient } from "bridgehead/client";',
    ...(upload ? ['import { readFile } from "node:fs/promises";'] : []),
    "",
    `const ${keyOption} = process.env.${variable} ?? "";`,
    'const url = "https://platform.example.com";',
    `const client = createClient({ url, ${keyOption}, timeoutMs: 60_000 });`,
    `const result = await client.${methods[id]}(${given.join(", ")});`,
    'if (result.kind === "ok") console.log(result.value);',
  ];
  return [
    { lang: "Shell", label: "curl", source: shell.join(" \\\n  ") },
    { lang: "TypeScript", label: "bridgehead/client", source: client.join("\n") },
  ];
}
