// The stylesheet and the script of the console, under paths with their hash.

import { createHash } from "node:crypto";
import { script } from "./script.ts";
import { style } from "./style.ts";

interface Asset {
  readonly path: string;
  readonly type: string;
  readonly text: string;
}

function asset(name: string, type: string, text: string): Asset {
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 12);
  return { path: `/assets/${hash}/${name}`, type, text };
}

export const assets = {
  style: asset("console.css", "text/css; charset=utf-8", style),
  script: asset("console.js", "text/javascript; charset=utf-8", script),
} as const;
