// Parses the style sheets and colours of HTML messages, as far as the visibility of text depends on them.

import type { Element } from "domhandler";

/** Declarations by property, both in lower case. */
export type CssRules = ReadonlyMap<string, string>;

/** Total characters of a message's style sheets that are read. All of their rules and selectors are read, because a limit
 *  on their number could be exceeded on purpose. */
const maxSheet = 200_000;
/** Rules with more than one part are compared one by one, so their number is limited. */
const maxComplex = 40;
/** Characters of a class attribute that are read. */
const maxClasses = 1000;
/** A longer at-rule is not supported. */
const maxQuery = 2000;
/** Characters of one rule's declarations, or of a style attribute, that are read. */
const maxDeclarations = 4000;

/** Properties that can hide text. */
const relevant = new Set(
  (
    "display visibility opacity font font-size color background background-color mso-hide position left top right bottom text-indent " +
    "margin-left margin-top padding-left height max-height width max-width overflow overflow-x overflow-y clip clip-path transform " +
    "scale translate zoom filter content-visibility line-height -webkit-text-fill-color"
  ).split(" "),
);
/** Shorthands for four sides, and what precedes the side in the names that they stand for. */
const shorthands: ReadonlyMap<string, string> = new Map([
  ["margin", "margin-"],
  ["padding", "padding-"],
  ["inset", ""],
]);

export type StyleSheet = ReturnType<typeof readStyleSheet>;

/** Number of open elements by key (`td`, `.note`, `#top`). */
export type ElementCounts = Map<string, number>;

interface Complex {
  /** Keys of the element itself. `[name]` and `[name=value]` are compared with its attributes, and it
   *  must not have the key in `:not(...)`. */
  readonly own: readonly string[];
  /** Keys that ancestors must have. */
  readonly above: readonly string[];
  readonly rules: CssRules;
}

const none: CssRules = new Map();
const relevantName = new RegExp(`(?<![\\w-])(?:${[...relevant, ...shorthands.keys()].join("|")})\\s*:`, "i");

/** False for a style attribute without a relevant declaration. */
export const isRelevant = (style: string): boolean =>
  style.includes("/*") || style.includes("\\") || relevantName.test(style.slice(0, maxDeclarations));

/** Parses the style sheets of a message. Invalid CSS is skipped. */
export function readStyleSheet(css: string) {
  const simple = new Map<string, Map<string, string>>();
  const complex: Complex[] = [];
  for (const { selectors, body } of blocks(unescaped(withoutComments(css.slice(0, maxSheet))))) {
    const rules = declarations(body);
    if (rules.size === 0) continue;
    for (const selector of selectors.split(",")) {
      const parts = selector
        .trim()
        .toLowerCase()
        .split(/[\s>]+/, 8);
      const keys = parts.map(keysOf);
      const own = keys.at(-1);
      if (own === undefined || keys.some((one) => one === null)) continue;
      if (keys.length === 1 && own !== null && own.length === 1 && !/^[[:]/.test(own[0] ?? ""))
        simple.set(own[0] as string, merge(simple.get(own[0] as string) ?? new Map<string, string>(), rules));
      else if (complex.length < maxComplex)
        complex.push({ own: own as string[], above: keys.slice(0, -1).flatMap((one) => one ?? []), rules });
    }
  }
  return {
    /** True when an ancestor's class can matter; the caller then has to maintain the path. */
    needsPath: complex.length > 0,
    /** Returns the rules that apply to the element: the rules of the style sheets, then its style attribute. `path`: names,
     *  classes and ids of its ancestors. */
    rulesOf(element: Element, path: ElementCounts): CssRules {
      const inline = element.attribs["style"];
      const keys = keysOfElement(element);
      const found = [...keys].flatMap((key) => simple.get(key) ?? []);
      for (const rule of complex) {
        if (
          rule.own.every((key) => isMet(key, element, keys)) &&
          rule.above.every((key) => key === "*" || path.has(key))
        )
          found.push(rule.rules as Map<string, string>);
      }
      if (inline !== undefined) found.push(declarations(inline));
      return found.length <= 1 ? (found[0] ?? none) : found.reduce(merge, new Map());
    },
  };
}

/** Adds an open element to the path, or removes it with -1. */
export function enter(path: ElementCounts, element: Element, by: 1 | -1): void {
  for (const key of keysOfElement(element)) {
    const count = (path.get(key) ?? 0) + by;
    if (count > 0) path.set(key, count);
    else path.delete(key);
  }
}

/** Returns the keys from the least to the most specific. */
function keysOfElement(element: Element): ReadonlySet<string> {
  const { class: classes, id } = element.attribs;
  const keys = new Set(["*", element.name]);
  if (classes !== undefined)
    for (const name of classes.slice(0, maxClasses).toLowerCase().split(/\s+/)) if (name !== "") keys.add(`.${name}`);
  if (id !== undefined) keys.add(`#${id.slice(0, 200).toLowerCase()}`);
  return keys;
}

/** True when the element has the key, an attribute for `[name]`, or not the key in `:not(...)`. */
function isMet(key: string, element: Element, keys: ReadonlySet<string>): boolean {
  if (key.startsWith("[")) return hasAttribute(element, key);
  return key.startsWith(":") ? !keys.has(key.slice(":not(".length, -1)) : keys.has(key);
}

/** Returns `td.note` as `td` and `.note`; null for selectors that are not supported. `:not(...)` is supported with one
 *  name, class or id; for an ancestor it matches nothing, because the path has no single elements. */
function keysOf(compound: string): string[] | null {
  const bare = compound.replace(/:(?:link|visited|any-link)$/, "");
  if (bare === "" || bare.length > 200) return null;
  if (
    !/^(?:\*|[a-z][a-z0-9]*)?(?:[.#][\w-]+|\[[\w-]+(?:=["']?[^"'\]=]*["']?)?\]|:not\([.#]?[a-z][\w-]*\))*$/.test(bare)
  )
    return null;
  return bare.match(/^\*|^[a-z][a-z0-9]*|\[[^\]]+\]|:not\([^)]+\)|[.#][\w-]+/g);
}

/** `key` is `[name]` or `[name=value]`. */
function hasAttribute(element: Element, key: string): boolean {
  const [name = "", value] = key.slice(1, -1).split("=");
  const found = Object.hasOwn(element.attribs, name) ? element.attribs[name] : undefined;
  return found !== undefined && (value === undefined || found.toLowerCase() === value.replace(/["']/g, ""));
}

/** Adds declarations to earlier ones, which they override unless only the earlier one is `!important`. */
function merge(earlier: Map<string, string>, later: CssRules): Map<string, string> {
  for (const [name, value] of later) {
    if (isImportant(earlier.get(name)) && !isImportant(value)) continue;
    earlier.set(name, value);
  }
  return earlier;
}

const isImportant = (value: string | undefined) => value?.includes("!important") === true;

/** Yields the rules outside at-rules, and those of `@media` and `@supports` that apply to a desktop. */
function* blocks(css: string): Generator<{ selectors: string; body: string }> {
  let at = 0;
  let inMedia = false;
  while (at < css.length) {
    const open = css.indexOf("{", at);
    if (inMedia) {
      const close = css.indexOf("}", at);
      if (close >= 0 && (open < 0 || close < open)) {
        inMedia = false;
        at = close + 1;
        continue;
      }
    }
    if (open < 0) return;
    const prelude = css.slice(at, open);
    const selectors = prelude
      .slice(prelude.lastIndexOf(";") + 1)
      .replace(/<!--|-->/g, "")
      .trim();
    if (selectors.startsWith("@")) {
      inMedia = appliesToDesktop(selectors.toLowerCase());
      at = inMedia ? open + 1 : endOfBlock(css, open);
      continue;
    }
    const close = css.indexOf("}", open);
    yield { selectors, body: css.slice(open + 1, close < 0 ? css.length : close) };
    if (close < 0) return;
    at = close + 1;
  }
}

/** True for a media query that matches a wide screen in light colours. An unsupported query does not apply. */
function appliesToDesktop(rule: string): boolean {
  if (rule.length > maxQuery) return false;
  if (rule.startsWith("@supports")) return !/\bnot\b/.test(rule);
  if (!rule.startsWith("@media")) return false;
  return rule
    .slice(6)
    .split(",", 10)
    .some((query) => {
      const type = query
        .replace(/\([^)]{0,200}\)/g, " ")
        .replace(/\b(?:only|and)\b/g, " ")
        .trim();
      if (type === "not print") return !query.includes("(");
      return /^(?:screen|all)?$/.test(type) && (query.match(/\([^)]{0,200}\)/g) ?? []).every(isMetByDesktop);
    });
}

function isMetByDesktop(condition: string): boolean {
  const [, bound, number, unit] =
    /^\(\s{0,9}(min|max)-(?:device-)?width\s{0,9}:\s{0,9}(\d{1,5})(?:\.\d{1,9})?(px|em|rem)\s{0,9}\)$/.exec(
      condition,
    ) ?? [];
  if (bound === undefined)
    return /^\(\s{0,9}(?:prefers-color-scheme\s{0,9}:\s{0,9}light|hover|pointer)\b/.test(condition);
  const pixels = Number(number) * (unit === "px" ? 1 : 16);
  return bound === "min" ? pixels <= 1024 : pixels >= 1400;
}

/** Returns the index after the brace that closes the block which opens at `open`. */
function endOfBlock(css: string, open: number): number {
  let depth = 0;
  for (let i = open; i < css.length; i++) {
    if (css[i] === "{") depth++;
    else if (css[i] === "}" && --depth === 0) return i + 1;
  }
  return css.length;
}

/** Returns the relevant declarations; the last of a name overrides the others, as in a browser. */
export function declarations(style: string): Map<string, string> {
  const rules = new Map<string, string>();
  const text = style.slice(0, maxDeclarations).toLowerCase();
  for (const rule of unescaped(text.includes("/*") ? withoutComments(text) : text).split(";")) {
    const colon = rule.indexOf(":");
    if (colon <= 0) continue;
    const name = rule.slice(0, colon).trim();
    const value = rule.slice(colon + 1).trim();
    for (const [part, own] of longhands(name, value))
      if (relevant.has(part) && !(isImportant(rules.get(part)) && !isImportant(own))) rules.set(part, own);
  }
  return rules;
}

/** Returns the declarations that a shorthand stands for; any other declaration is returned as it is. */
function longhands(name: string, value: string): readonly (readonly [string, string])[] {
  const prefix = shorthands.get(name);
  if (prefix === undefined) return [[name, value]];
  const important = isImportant(value) ? "!important" : "";
  const [top = "", right = top, bottom = top, left = right] = value.replace("!important", "").trim().split(/\s+/, 4);
  return Object.entries({ top, right, bottom, left }).map(([side, length]) => [prefix + side, length + important]);
}

/** Decodes the escapes of characters that occur in names: `n\6fne` is `none`. The others stay, so that
 *  they cannot separate declarations, and no name contains them. */
function unescaped(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(/\\(?:([0-9a-f]{1,6})(?:\r\n|\s)?|([g-z_-])|.)/gis, (escape, code?: string, letter?: string) => {
    const character = code === undefined ? letter : asciiOf(Number.parseInt(code, 16));
    return character !== undefined && /^[\w-]$/.test(character) ? character : escape;
  });
}

const asciiOf = (code: number) => (code < 0x80 ? String.fromCharCode(code) : "");

function withoutComments(text: string): string {
  const out: string[] = [];
  let at = 0;
  for (;;) {
    const open = text.indexOf("/*", at);
    if (open < 0) return out.concat(text.slice(at)).join("");
    out.push(text.slice(at, open));
    const close = text.indexOf("*/", open + 2);
    if (close < 0) return out.join("");
    at = close + 2;
  }
}

export interface Colour {
  /** 0 to 255. */
  readonly red: number;
  readonly green: number;
  readonly blue: number;
  /** 0 (transparent) to 1. */
  readonly alpha: number;
}

export const white: Colour = { red: 255, green: 255, blue: 255, alpha: 1 };

/** Named colours of CSS: the light colours, which can hide text on white, and the common ones. */
const names: ReadonlyMap<string, string> = new Map(
  (
    "white ffffff snow fffafa ivory fffff0 ghostwhite f8f8ff floralwhite fffaf0 whitesmoke f5f5f5 seashell fff5ee azure f0ffff " +
    "mintcream f5fffa honeydew f0fff0 aliceblue f0f8ff lavenderblush fff0f5 oldlace fdf5e6 linen faf0e6 cornsilk fff8dc " +
    "lightyellow ffffe0 lightcyan e0ffff beige f5f5dc lavender e6e6fa lightgoldenrodyellow fafad2 lemonchiffon fffacd " +
    "antiquewhite faebd7 papayawhip ffefd5 blanchedalmond ffebcd bisque ffe4c4 mistyrose ffe4e1 gainsboro dcdcdc " +
    "lightgray d3d3d3 lightgrey d3d3d3 silver c0c0c0 darkgray a9a9a9 darkgrey a9a9a9 gray 808080 grey 808080 dimgray 696969 " +
    "dimgrey 696969 black 000000 red ff0000 crimson dc143c darkred 8b0000 maroon 800000 orange ffa500 darkorange ff8c00 " +
    "orangered ff4500 tomato ff6347 gold ffd700 yellow ffff00 olive 808000 lime 00ff00 green 008000 darkgreen 006400 " +
    "seagreen 2e8b57 limegreen 32cd32 teal 008080 aqua 00ffff cyan 00ffff blue 0000ff darkblue 00008b mediumblue 0000cd " +
    "royalblue 4169e1 dodgerblue 1e90ff navy 000080 purple 800080 indigo 4b0082 violet ee82ee magenta ff00ff fuchsia ff00ff " +
    "pink ffc0cb deeppink ff1493 hotpink ff69b4 brown a52a2a windowtext 000000 window ffffff canvas ffffff canvastext 000000"
  )
    .match(/\S+ \S+/g)
    ?.map((pair) => pair.split(" ") as [string, string]) ?? [],
);

/** Parses a CSS colour in lower case, or the value of a `color` attribute. `parent` is the value for
 *  `inherit`. Returns null when the value is not supported. */
export function colourOf(value: string, parent: Colour | null): Colour | null {
  const text = value.slice(0, 100).toLowerCase().replace("!important", "").trim();
  if (text === "inherit" || text === "currentcolor" || text === "unset") return parent;
  if (text === "transparent") return { ...white, alpha: 0 };
  const hex = names.get(text) ?? /^#?([0-9a-f]{3,8})$/.exec(text)?.[1];
  if (hex !== undefined) return fromHex(hex);
  const [, kind, inside] = /^(rgb|hsl)a?\(([^)]{1,80})\)?/.exec(text) ?? [];
  if (inside === undefined) return null;
  const parts = inside.split(/[\s,/]+/).filter((part) => part !== "");
  return kind === "rgb" ? fromRgb(parts) : fromHsl(parts);
}

function fromHex(hex: string): Colour | null {
  const long = hex.length <= 4 ? hex.replace(/./g, "$&$&") : hex;
  if (long.length !== 6 && long.length !== 8) return null;
  const byte = (at: number) => Number.parseInt(long.slice(at, at + 2), 16);
  return { red: byte(0), green: byte(2), blue: byte(4), alpha: long.length === 8 ? byte(6) / 255 : 1 };
}

function fromRgb(parts: readonly string[]): Colour | null {
  const [red, green, blue] = parts.slice(0, 3).map((part) => amount(part, 255));
  return red === undefined || green === undefined || blue === undefined
    ? null
    : { red, green, blue, alpha: alphaOf(parts) };
}

function fromHsl(parts: readonly string[]): Colour | null {
  const hue = Number.parseFloat(parts[0] ?? "");
  const saturation = Number.parseFloat(parts[1] ?? "") / 100;
  const light = Number.parseFloat(parts[2] ?? "") / 100;
  if (Number.isNaN(hue + saturation + light)) return null;
  const channel = (shift: number) => {
    const place = (((shift + hue / 30) % 12) + 12) % 12;
    const reach = saturation * Math.min(light, 1 - light);
    return 255 * (light - reach * Math.max(-1, Math.min(place - 3, 9 - place, 1)));
  };
  return { red: channel(0), green: channel(8), blue: channel(4), alpha: alphaOf(parts) };
}

const alphaOf = (parts: readonly string[]) => (parts[3] === undefined ? 1 : amount(parts[3], 1));

/** Parses a number, or a percentage of `full`. */
function amount(text: string, full: number): number {
  const number = Number.parseFloat(text);
  if (Number.isNaN(number)) return full;
  return text.endsWith("%") ? (number / 100) * full : number;
}

/** Returns the contrast ratio of WCAG 2, from 1 (equal) to 21. */
export function contrast(one: Colour, other: Colour): number {
  const [a, b] = [luminance(one), luminance(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

function luminance({ red, green, blue }: Colour): number {
  const linear = (value: number) => {
    const share = Math.min(255, Math.max(0, value)) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

/** True for red, blue or green; false for the greys and near-blacks that mail clients use by default. */
export function isVivid({ red, green, blue }: Colour): boolean {
  return Math.max(red, green, blue) - Math.min(red, green, blue) > 80;
}
