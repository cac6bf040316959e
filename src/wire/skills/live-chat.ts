// LIVE_CHAT: a chat widget on a web page.

import * as z from "zod";
import { skillOf } from "./kinds.ts";

const colours = z.looseObject({ backgroundColor: z.string(), textColor: z.string() });

const widgetButtonConfig = z.looseObject({
  mode: z.enum(["automatic", "on_hover"]),
  type: z.enum(["icon_only", "text_only", "icon_and_text"]),
  borderRadius: z.enum(["0px", "8px", "100%"]),
  /** The launcher's size in pixels. */
  size: z.string(),
  /** Required when the launcher's theme is custom. */
  selectedTheme: z.enum(["light", "dark", "system"]).optional(),
  lightThemeConfig: colours,
  darkThemeConfig: colours,
  launcherAttentionEffect: z.enum(["none", "pulse"]),
  launcherTheme: z.enum(["default", "solid", "gradient", "glassmorphism", "custom"]),
  logoFit: z.enum(["cover", "contain"]),
  launcherTeaser: z.enum(["suggestions", "proactive", "none"]),
  /** Used when the teaser is proactive. */
  proactiveBubble: z
    .looseObject({ message: z.string(), delaySeconds: z.number().min(0).max(3600) })
    .optional(),
});

const day = z.string().regex(/^\d{4}-\d{2}-\d{2}$/);

export const liveChatSkill = skillOf(
  "LIVE_CHAT",
  {
    limitUnavailableDates: z.boolean(),
    unavailableDates: z.array(day),
    unavailableDatesMessage: z.string(),
  },
  {
    color: z.string(),
    widgetButtonConfig,
    titleLine1: z.string(),
    titleLine2: z.string(),
    /** Same value as titleLine2, kept for older clients. */
    intro: z.string(),
    links: z.array(z.looseObject({ name: z.string(), url: z.string() })),
    disclaimer: z.string(),
    chatFooterContent: z.string(),
    suggestions: z.array(z.string()),
    whitelistedIps: z.array(z.string()),
    restrictedCountries: z.array(z.string()),
  },
);
