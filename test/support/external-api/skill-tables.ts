// The skills (External API 2.6), in the same form as the other tables: by system name, and what they are made of. The
// base fields are every skill's.

export const skillNames = [
  "LIVE_CHAT",
  "SMS",
  "EMAIL",
  "WEBHOOK",
  "FUNCTION",
  "SCORING",
  "API",
  "VOICE",
  "MEMORY",
  "AGENT_REPORT",
  "SCRAPING",
  "NOTIFICATIONS",
  "EXTERNAL_RETRIEVERS",
  "WEB_SEARCH",
  "FEEDBACK",
  "ESCALATION",
  "CALENDAR",
  "AUDITOR",
  "COPILOT",
  "MCP",
  "ENHANCED_PROMPTING",
  "<CHAT_WORKSPACE>",
  "DATA_RETENTION",
  "ORCHESTRATOR",
  "<TEAMS_CHAT>",
  "MESSAGE_QUOTA",
] as const;

export const skillTables: { readonly [name: string]: string } = {
  skill: `
    systemName | string | yes
    status | string | yes | active, inactive`,
  LIVE_CHAT: `
    color | string | no
    widgetButtonConfig | widget button | no
    titleLine1 | string | no
    titleLine2 | string | no
    intro | string | no
    links | array of link | no
    disclaimer | string | no
    chatFooterContent | string | no
    suggestions | array of string | no
    whitelistedIps | array of string | no
    restrictedCountries | array of string | no
    limitUnavailableDates | boolean | yes
    unavailableDates | array of day | yes
    unavailableDatesMessage | string | yes`,
  link: `
    name | string | yes
    url | string | yes | /^[a-z]+:/`,
  "widget button": `
    mode | string | yes | automatic, on_hover
    type | string | yes | icon_only, text_only, icon_and_text
    borderRadius | string | yes | 0px, 8px, 100%
    size | string | yes
    selectedTheme | string | no | light, dark, system
    lightThemeConfig | colours | yes
    darkThemeConfig | colours | yes
    launcherAttentionEffect | string | yes | none, pulse
    launcherTheme | string | yes | default, solid, gradient, glassmorphism, custom
    logoFit | string | yes | cover, contain
    launcherTeaser | string | yes | suggestions, proactive, none
    proactiveBubble | bubble | no`,
  colours: `
    backgroundColor | string | yes | /^#[0-9a-fA-F]{3,8}$/
    textColor | string | yes | /^#[0-9a-fA-F]{3,8}$/`,
  bubble: `
    message | string | yes
    delaySeconds | number | yes | 0..3600`,
  SMS: `
    phoneNumber | string | yes
    defaultSmsIntroduction | object | no
    smsSignature | object | no
    responseDelaySeconds | number or null | no | 0..3600`,
  EMAIL: `
    email | string | yes
    senderName | string | no
    defaultSubject | string | no
    defaultEmailIntroduction | string | no
    emailSignature | string | no
    responseDelaySeconds | number or null | no | 0..3600`,
  WEBHOOK: `
    name | string | yes
    description | string | yes
    webhooks | array of webhook config | yes`,
  "webhook config": `
    status | string | yes | active, inactive
    title | string | yes
    description | string | yes
    url | string | yes
    triggerCondition | string | yes | each_message, end_dialog, start_dialog, chat_currently_unavailable, auto_archive_conversation, manual
    headers | object | no`,
  SCORING: `
    scoringPrompt | string | no`,
  API: `
    apiKey | uuid | yes`,
  VOICE: `
    /^v\\w*AssistantId$/ | string | yes
    /^v\\w*PhoneNumberId$/ | string | yes`,
  MEMORY: `
    type | string | yes | BY_USER, BY_AGENT
    retentionDuration | number | yes`,
  AGENT_REPORT: `
    frequency | string | yes | DAILY, WEEKLY, MONTHLY
    emails | array of string | yes`,
  SCRAPING: `
    scrapingConfigs | array of scraping config | yes`,
  "scraping config": `
    url | string | yes
    startCrawledAt | date-time or null | yes
    endCrawledAt | date-time or null | yes
    crawlerType | string | yes
    crawlFormat | string | yes | JSON, MARKDOWN, HTML, CONTENT
    excludeUrls | array of string or null | yes
    pageLimit | number | yes
    maxDepth | number | yes
    frequency | string | yes | manual, daily, weekly, monthly
    autoUpload | boolean | yes
    crawlingStatus | string | yes | not_started, in_progress, completed, failed, canceled`,
  EXTERNAL_RETRIEVERS: `
    externalRetrievers | array of retriever | yes`,
  retriever: `
    name | string | yes
    type | string | yes
    status | string | yes | active, inactive
    config | retriever config | yes`,
  "retriever config": `
    apiKey | string | yes
    indexName | string | yes
    host | string | yes
    fieldName | string | yes
    namespace | string | yes
    topK | number | yes
    isEmbedded | boolean | yes
    dimensions | number | no
    model | string | no | text-embedding-ada-002, text-embedding-3-large, text-embedding-3-small`,
  WEB_SEARCH: `
    webSearchServiceType | string | yes
    prompt | string | yes`,
  FEEDBACK: `
    period | string | yes | last_30_days, last_60_days, last_90_days, all_time
    autoUpload | boolean | yes
    generationMode | string | yes | manual, auto`,
  ESCALATION: `
    escalations | array of escalation | yes`,
  escalation: `
    topic | string | yes
    escalationPrompt | string | yes
    autoChangeConversationMode | boolean | yes
    response | string | yes
    recipients | array of recipient | yes`,
  recipient: `
    channel | string | yes | sms, email, webhook
    value | string | yes
    headers | object | no`,
  CALENDAR: `
    config | calendar config | yes`,
  "calendar config": `
    type | string | yes
    apiKey | string | yes
    prompt | string | yes`,
  DATA_RETENTION: `
    retentionDays | number | yes
    anonymizeConversations | boolean | yes
    anonymizeConversationUsers | boolean | yes`,
  "<TEAMS_CHAT>": `
    config | teams config | yes`,
  "teams config": `
    isFileUploadEnabled | boolean | yes
    tenants | array of tenant | yes`,
  tenant: `
    tenantId | string | yes
    enabled | boolean | yes
    teams | array of team | yes
    users | user scope | yes`,
  team: `
    teamId | string | yes
    channels | channel scope | yes`,
  "channel scope": `
    mode | string | yes | ALL_ENABLED, CUSTOM
    channelIds | array of string | yes`,
  "user scope": `
    mode | string | yes | ALL_ENABLED, CUSTOM
    userIds | array of string | yes`,
  "<CHAT_WORKSPACE>": `
    config | workspaces config | yes`,
  "workspaces config": `
    isFileUploadEnabled | boolean | yes
    workspaces | array of workspace | yes`,
  workspace: `
    slackTeamId | string | yes
    enabled | boolean | yes
    channels | known channel scope | yes
    users | known user scope | yes`,
  "known channel scope": `
    mode | string | yes | ALL_ENABLED, CUSTOM
    channelIds | array of string | yes
    requireKnownRaiaUser | boolean | yes`,
  "known user scope": `
    mode | string | yes | ALL_ENABLED, CUSTOM
    userIds | array of string | yes
    requireKnownRaiaUser | boolean | yes`,
};
