// The records of the External API as its document writes them, one line a field: name | type | required | allowed. What
// the document leaves open follows the public description of the same interface. Nothing here is taken from the code.

/** `allowed`: values, a range (0..3600), or a pattern. Single values that stand for brands are not checked. */

export const tables: { readonly [name: string]: string } = {
  // 2.1
  page: `
    currentPage | number | yes
    pageSize | number | yes
    totalItems | number | yes
    totalPages | number | yes
    hasNextPage | boolean | yes
    hasPreviousPage | boolean | yes
    data | array of object | yes`,
  // 2.2
  "agent user": `
    id | string | yes
    firstName | string | yes
    lastName | string | yes
    context | string | no
    source | string | no
    fkId | string | no
    fkUserId | string | no
    email | string | no
    phoneNumber | string | no
    metadata | object | no
    isAnonymized | boolean | yes`,
  // 2.3
  "platform user": `
    id | string | yes
    email | string | yes
    firstName | string | yes
    lastName | string | yes
    avatarUrl | string or null | no
    agentRole | string or null | no | owner, admin, editor, user, copilot_user, copilot_admin
    agentAccessStatus | string or null | no | active, inactive
    organizationRole | string or null | no | owner, admin, manager, user, copilot_user, copilot_admin, guest
    organizationStatus | string or null | no | active, inactive
    accessSource | string | yes | agent, organization
    createdAt | date-time | yes`,
  // 2.4
  agent: `
    organizationId | uuid | yes
    organizationName | string | yes
    id | uuid | yes
    name | string | yes
    publicName | string | yes
    role | string | yes
    description | string | no
    vectorStoreId | string | yes
    aiConfig | ai config | yes
    avatarUrl | string | no
    status | string | yes | active, inactive, draft
    tags | array of string or null | no
    skills | array of skill | yes
    restrictDocumentsToOwnerOnly | boolean | no`,
  // 2.5
  "ai config": `
    id | string | yes
    model | string | yes | /^(o3-mini|.+-(4\\.1|4\\.1-nano|4\\.1-mini|3\\.5-turbo|5-nano|5|5-mini|5\\.1|5\\.2|5\\.4|5\\.4-mini|5\\.4-nano|5\\.5|5\\.6|5\\.6-terra|5\\.6-luna))$/
    temperature | number | yes
    topP | number | yes
    instructions | string | yes
    isCodeInterpreterEnabled | boolean | yes
    isFileSearchEnabled | boolean | yes
    fileSearchMaxNumResults | number | yes
    reasoningEffort | string or null | no | low, medium, high, xhigh, minimal, none, max
    reasoningMode | string or null | no | standard, pro
    isOutputJsonSchemaEnabled | boolean | no
    outputJsonSchema | string | yes`,
  // 2.7
  statistic: `
    tokensUsed | number | yes
    tokensPerConversation | number | yes
    vapiSecondsUsed | number | yes
    averageCallDuration | number | yes
    smsUsed | number | yes
    smsPerConversation | number | yes
    emailsUsed | number | yes
    emailsPerConversation | number | yes`,
  // 7
  error: `
    status | number | yes
    name | string | yes
    message | string | yes
    details | array of object | yes`,
  fault: `
    status | number | yes | /^500$/
    message | string | yes | Internal Server Error`,
  // 4.3, and the public description
  "conversation start": `
    conversationId | string | yes`,
  conversation: `
    id | string | yes
    conversationUserId | string | yes
    title | string | no
    score | number | no | 0..10
    summary | string | no
    aiConversationId | string | yes
    metadata | object | no
    aiCallId | string | no
    mode | string | no | manual, ai
    conversationStateId | string | no
    user | agent user | yes
    createdAt | date-time | yes
    updatedAt | date-time | yes
    assignedUser | assigned user or null | no
    isAnonymized | boolean | yes
    feedbacks | array of feedback | no`,
  "assigned user": `
    id | string | yes
    firstName | string | yes
    lastName | string | yes
    email | string | yes
    avatarUrl | string or null | no
    phoneNumber | string or null | no`,
  feedback: `
    id | string | yes
    voteType | string | yes | up, down
    question | string or null | yes
    answer | string or null | yes
    comment | string or null | yes
    userEmail | string or null | no`,
  message: `
    id | string | yes
    message | string | yes
    rawMessage | string | no
    conversationId | string | yes
    senderRole | string | yes | conversation_user, assistant, manual_assistant
    conversationMessageId | string | yes
    source | string | yes
    createdAt | date-time | yes
    conversationMessageFeedbacks | array of feedback | no
    fullAIResponse | full answer | no
    subagentId | string or null | no
    expandedMessage | string or null | no
    files | array of message file | no
    isAnonymized | boolean | yes`,
  "full answer": `
    reasoning | array of string or null | no
    outputText | string or null | no
    urlCitations | array of url citation or null | no
    fileCitations | array of file citation or null | no`,
  "url citation": `
    url | string | yes
    title | string | yes`,
  "file citation": `
    fileId | string | yes
    filename | string | yes`,
  "message file": `
    id | string | yes
    fileName | string | yes
    openAIFileId | string | yes
    size | number or null | no
    createdAt | date-time | yes
    updatedAt | date-time | yes`,
  "upload address": `
    signedUrl | string | yes | /^https?:/
    storagePath | string | yes`,
  "download address": `
    signedUrl | string | yes | /^https?:/
    fileId | string | yes`,
  "conversation state": `
    id | uuid | yes
    name | string | yes
    description | string or null | yes
    color | string or null | yes
    isPersistent | boolean | yes
    createdAt | date-time | yes
    updatedAt | date-time | yes`,
  "response on": `
    status | string | yes | pending, completed, failed
    message | message or null | yes
    error | string or null | yes`,
  "user search": `
    user | agent user | yes
    conversationIds | array of string | yes`,
  "agent file": `
    id | uuid | yes
    fileName | string | yes
    url | string | yes
    createdAt | date-time | yes
    vectorStoreFileId | string | no
    isUploadedToVectorStore | boolean or null | no
    vectorStoreUploadStatus | string or null | no | processing, done, failed
    uploadedToVectorStoreAt | date-time | no`,
  webhook: `
    id | string | yes
    agentId | string | yes
    title | string | yes
    description | string | yes
    url | string | yes
    triggerCondition | string | yes | each_message, end_dialog, start_dialog, chat_currently_unavailable, auto_archive_conversation, manual
    headers | object | no
    status | string | yes | active, inactive
    createdAt | date-time | yes
    updatedAt | date-time | yes`,
};

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
