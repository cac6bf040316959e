// Skills that provide knowledge in addition to the instructions: SCRAPING, EXTERNAL_RETRIEVERS, WEB_SEARCH,
// MEMORY, CALENDAR.

import * as z from "zod";
import { skillOf, status } from "./kinds.ts";

const date = z.string();

const scrapingConfig = z.looseObject({
  url: z.string(),
  startCrawledAt: date.nullable(),
  endCrawledAt: date.nullable(),
  /** One of two crawler providers, under their own names. */
  crawlerType: z.string(),
  crawlFormat: z.enum(["JSON", "MARKDOWN", "HTML", "CONTENT"]),
  excludeUrls: z.array(z.string()).nullable(),
  pageLimit: z.number(),
  maxDepth: z.number(),
  frequency: z.enum(["manual", "daily", "weekly", "monthly"]),
  autoUpload: z.boolean(),
  crawlingStatus: z.enum(["not_started", "in_progress", "completed", "failed", "canceled"]),
});

export const scrapingSkill = skillOf("SCRAPING", { scrapingConfigs: z.array(scrapingConfig) }, {});

const retriever = z.looseObject({
  name: z.string(),
  type: z.string(),
  status,
  config: z.looseObject({
    apiKey: z.string(),
    indexName: z.string(),
    host: z.string(),
    fieldName: z.string(),
    namespace: z.string(),
    topK: z.number(),
    isEmbedded: z.boolean(),
    dimensions: z.number().optional(),
    model: z.enum(["text-embedding-ada-002", "text-embedding-3-large", "text-embedding-3-small"]).optional(),
  }),
});

export const retrieversSkill = skillOf("EXTERNAL_RETRIEVERS", { externalRetrievers: z.array(retriever) }, {});

export const webSearchSkill = skillOf(
  "WEB_SEARCH",
  { webSearchServiceType: z.string(), prompt: z.string() },
  {},
);

export const memorySkill = skillOf(
  "MEMORY",
  { type: z.enum(["BY_USER", "BY_AGENT"]), retentionDuration: z.number() },
  {},
);

export const calendarSkill = skillOf(
  "CALENDAR",
  { config: z.looseObject({ type: z.string(), apiKey: z.string(), prompt: z.string() }) },
  {},
);
