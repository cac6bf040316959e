// Every operation with what it needs to succeed, by the table of the wire: a new operation without an entry here does not
// compile.

import { type Operation, operations as table } from "../../../src/wire/operations/index.ts";

export type OperationName = keyof typeof table;
export const operations: { readonly [name in OperationName]: Operation } = table;
export const operationNames = Object.keys(table) as OperationName[];

/** Things of one tenant, by what they are. */
export interface Things {
  readonly agent: string;
  readonly conversation: string;
  readonly user: string;
  readonly message: string;
  /** Uploaded and named by `message`. */
  readonly messageFile: string;
  readonly storagePath: string;
  readonly file: string;
  readonly webhook: string;
  readonly delivery: string;
}
export type Thing = keyof Things;

type WithBody = {
  [Name in OperationName]: (typeof table)[Name] extends { readonly body: unknown } ? Name : never;
}[OperationName];

/** What is right to send, given what there is. */
export const bodies: {
  readonly [name in WithBody]: (things: Things) => { readonly [field: string]: unknown };
} = {
  startConversation: () => ({
    firstName: "Jo",
    lastName: "Doe",
    channel: "email",
    email: "jo@example.test",
    emailSubject: "A question",
    emailIntroduction: "Thank you for writing.",
  }),
  createConversation: ({ user }) => ({ conversationUserId: user, title: "Lamps" }),
  deleteConversations: ({ user }) => ({ conversationUserId: user }),
  updateConversation: () => ({ title: "Lamps", context: "In the kitchen", status: "active" }),
  setConversationMode: () => ({ mode: "manual" }),
  sendMessage: () => ({ message: "Are you open?", context: "At night" }),
  sendMessageAsync: () => ({ message: "Are you open?" }),
  sendManualMessage: () => ({ message: "From a colleague" }),
  createUploadUrl: () => ({ fileName: "lamp.txt", contentType: "text/plain" }),
  createUser: () => ({ firstName: "Jo", lastName: "Doe", fkId: "somebody-new" }),
  deleteFiles: ({ file }) => ({ fileIds: [file] }),
  registerWebhook: () => ({
    title: "W",
    description: "D",
    url: "https://127.0.0.1:9/hook",
    triggerCondition: "manual",
    headers: { "x-token": "t" },
  }),
  fireWebhook: ({ conversation }) => ({ conversationId: conversation }),
};

export const hasBody = (name: OperationName): name is WithBody => name in bodies;

/** What the parameters of an operation's path name, in their order. */
export function namedBy(name: OperationName): Thing[] {
  const { path } = operations[name];
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => {
    if (parameter === "messageId") return "message";
    if (parameter === "fileId") return "messageFile";
    const [, area = ""] = /^\/external\/([\w/-]+?)\/\{id\}/.exec(path) ?? [];
    const thing = areas[area];
    if (thing === undefined) throw new Error(`what does {id} of ${path} name?`);
    return thing;
  });
}

const areas: { readonly [area: string]: Thing } = {
  agents: "agent",
  conversations: "conversation",
  users: "user",
  "agent-files": "file",
  "agents/webhooks": "webhook",
  "agents/webhooks/deliveries": "delivery",
};

/** The path with these in place of its parameters, as they are. */
export function pathOf(name: OperationName, ids: readonly string[]): string {
  let next = 0;
  return operations[name].path.replaceAll(/\{\w+\}/g, () => ids[next++] ?? "");
}
