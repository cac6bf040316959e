// A file of agents' skills: every one of the interface, with every field it lists.

const scope = { mode: "CUSTOM", userIds: ["u-1"] };
const channels = { mode: "ALL_ENABLED", channelIds: [] };
const known = { requireKnownRaiaUser: true };
const colours = { backgroundColor: "#ffffff", textColor: "#000000" };

export const everySkill = {
  email: {
    email: "support@acme.test",
    senderName: "Ada",
    defaultSubject: "Hello",
    defaultEmailIntroduction: "Thank you for writing.",
    emailSignature: "Ada",
    responseDelaySeconds: 3600,
  },
  sms: {
    phoneNumber: "+15550100",
    defaultSmsIntroduction: { en: "Hello" },
    smsSignature: { en: "- Ada" },
    responseDelaySeconds: null,
  },
  live_chat: {
    color: "#00aa00",
    widgetButtonConfig: {
      mode: "on_hover",
      type: "icon_and_text",
      borderRadius: "100%",
      size: "64",
      selectedTheme: "dark",
      lightThemeConfig: colours,
      darkThemeConfig: colours,
      launcherAttentionEffect: "pulse",
      launcherTheme: "custom",
      logoFit: "cover",
      launcherTeaser: "proactive",
      proactiveBubble: { message: "May I help?", delaySeconds: 3600 },
    },
    titleLine1: "Hello",
    titleLine2: "How can I help?",
    intro: "How can I help?",
    links: [{ name: "Shop", url: "https://acme.test/" }],
    disclaimer: "A machine answers.",
    chatFooterContent: "Acme",
    suggestions: ["Opening hours"],
    whitelistedIps: ["192.0.2.1"],
    restrictedCountries: ["XX"],
    limitUnavailableDates: true,
    unavailableDates: ["2026-12-25"],
    unavailableDatesMessage: "We are away.",
  },
  voice: { firstMessage: "Good day." },
  function: {},
  scoring: { scoringPrompt: "Was the person helped?" },
  memory: { type: "BY_USER", retentionDuration: 30 },
  agent_report: { frequency: "WEEKLY", emails: ["owner@acme.test"] },
  scraping: {
    scrapingConfigs: [
      {
        url: "https://acme.test/",
        startCrawledAt: "2026-11-01T10:00:00Z",
        endCrawledAt: null,
        crawlerType: "crawler",
        crawlFormat: "MARKDOWN",
        excludeUrls: null,
        pageLimit: 10,
        maxDepth: 2,
        frequency: "manual",
        autoUpload: false,
        crawlingStatus: "in_progress",
      },
    ],
  },
  notifications: {},
  external_retrievers: {
    externalRetrievers: [
      {
        name: "Products",
        type: "index",
        status: "inactive",
        config: {
          apiKey: "k",
          indexName: "products",
          host: "index.test",
          fieldName: "text",
          namespace: "acme",
          topK: 5,
          isEmbedded: true,
          dimensions: 1536,
          model: "text-embedding-3-small",
        },
      },
    ],
  },
  web_search: { webSearchServiceType: "provider", prompt: "Search our pages." },
  feedback: { period: "last_30_days", autoUpload: false, generationMode: "auto" },
  escalation: {
    escalations: [
      {
        topic: "Legal threats",
        escalationPrompt: "The person mentions a lawyer or a court.",
        autoChangeConversationMode: true,
        response: "A colleague will take over.",
        recipients: [{ channel: "email", value: "lead@acme.test" }],
      },
    ],
  },
  calendar: { config: { type: "calendar", apiKey: "k", prompt: "Offer free hours." } },
  auditor: { status: "inactive" },
  copilot: {},
  mcp: {},
  enhanced_prompting: {},
  chat_workspace: {
    config: {
      isFileUploadEnabled: true,
      workspaces: [
        {
          slackTeamId: "T1",
          enabled: true,
          channels: { ...channels, ...known },
          users: { ...scope, ...known },
        },
      ],
    },
  },
  data_retention: { retentionDays: 365, anonymizeConversations: true, anonymizeConversationUsers: true },
  orchestrator: {},
  teams_chat: {
    config: {
      isFileUploadEnabled: false,
      tenants: [
        {
          tenantId: "0f6c3c1e-7a55-4e0b-9c39-0d3f5c1b2a12",
          enabled: false,
          teams: [{ teamId: "team", channels }],
          users: scope,
        },
      ],
    },
  },
  message_quota: { limit: 1000, response: "Come back next month." },
};
