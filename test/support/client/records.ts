// Records as the interface describes them, for tests.

export const agentRecord = (skills: readonly object[] = [], over: object = {}) => ({
  organizationId: "5f7b1b3b-3b3b-4b3b-8b3b-3b3b3b3b3b3b",
  organizationName: "Acme",
  id: "6f7b1b3b-3b3b-4b3b-8b3b-3b3b3b3b3b3b",
  name: "Support",
  publicName: "Acme Support",
  role: "support",
  vectorStoreId: "vs_1",
  aiConfig: {
    id: "ai_1",
    model: "o3-mini",
    temperature: 0.2,
    topP: 1,
    instructions: "Be brief.",
    isCodeInterpreterEnabled: false,
    isFileSearchEnabled: true,
    fileSearchMaxNumResults: 5,
    outputJsonSchema: "",
  },
  status: "active",
  skills,
  ...over,
});

export const emailSkill = (over: object = {}) => ({
  systemName: "EMAIL",
  status: "active",
  email: "support@acme.test",
  senderName: "Ada from Acme",
  defaultSubject: "Your question",
  defaultEmailIntroduction: "Thank you for writing.",
  emailSignature: "Ada\nAcme",
  responseDelaySeconds: 90,
  ...over,
});

let clock = Date.parse("2026-11-20T10:00:00.000Z");

export const messageRecord = (id: string, senderRole: string, message: string, over: object = {}) => ({
  id,
  message,
  conversationId: "c-1",
  senderRole,
  conversationMessageId: id,
  source: "api",
  createdAt: new Date((clock += 1000)).toISOString(),
  isAnonymized: false,
  ...over,
});

export const conversationRecord = (over: object = {}) => ({
  id: "c-1",
  conversationUserId: "u-1",
  aiConversationId: "conv_1",
  user: { id: "u-1", firstName: "Jo", lastName: "Doe", isAnonymized: false },
  createdAt: "2026-11-20T10:00:00.000Z",
  updatedAt: "2026-11-20T10:00:00.000Z",
  isAnonymized: false,
  ...over,
});
