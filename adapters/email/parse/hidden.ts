// Which elements of an HTML mail a reader cannot see. Hidden text is how instructions reach a model behind a person's back.

import type { Element } from "domhandler";

/** Never shown, or nothing to read. */
const silent = new Set(
  [
    "head",
    "style",
    "script",
    "template",
    "noscript",
    "iframe",
    "object",
    "embed",
    "svg",
    "math",
    "canvas",
    "audio",
    "video",
  ].concat([
    "meta",
    "link",
    "title",
    "base",
    "map",
    "select",
    "textarea",
    "input",
    "button",
    "applet",
    "frameset",
    "noframes",
    "dialog",
  ]),
);
/** Class names by which style sheets of mails hide things. */
const hidingClasses =
  /(?:^|\s)(?:hidden|hide|d-none|invisible|sr-only|visually-hidden|visuallyhidden|preheader|preview-text|mcnpreviewtext|display-none|screen-reader-text|is-hidden|u-hidden)(?=\s|$)/;

/** True when neither the element nor anything in it is to be read. */
export function isHidden(element: Element): boolean {
  if (silent.has(element.name)) return true;
  const { hidden, style, class: classes, type } = element.attribs;
  if (hidden !== undefined || element.attribs["aria-hidden"]?.trim().toLowerCase() === "true") return true;
  if (type?.toLowerCase() === "hidden") return true;
  if (classes !== undefined && hidingClasses.test(classes.slice(0, 500).toLowerCase())) return true;
  if (element.attribs["width"] === "0" && element.attribs["height"] === "0") return true;
  if (isTooSmall(element)) return true;
  return style !== undefined && hidesByStyle(style);
}

function isTooSmall(element: Element): boolean {
  return element.name === "font" && element.attribs["size"] === "0";
}

function hidesByStyle(style: string): boolean {
  const rules = declarations(style);
  const is = (name: string, test: RegExp) => {
    const value = rules.get(name);
    return value !== undefined && test.test(value);
  };
  return (
    is("display", /^none/) ||
    is("visibility", /^(?:hidden|collapse)/) ||
    is("mso-hide", /^all/) ||
    is("content-visibility", /^hidden/) ||
    isFaint(rules.get("opacity")) ||
    isTiny(rules.get("font-size")) ||
    is("font", /(?:^|\s)0(?:px|pt|em|rem|%)?(?:\/|\s)/) ||
    isFaint(rules.get("zoom")) ||
    is("transform", /scale(?:x|y|3d)?\(0(?:[.)\s,]0*|\))/) ||
    is("filter", /opacity\(0/) ||
    is("clip", /^rect\((?:0(?:px)?|1px)[\s,]/) ||
    is("clip-path", /^inset\((?:50|100)%|^circle\(0|^polygon\(0(?:px)?\s0/) ||
    is(
      "color",
      /^(?:transparent|rgba\([^)]{0,60},\s{0,4}0(?:\.0{1,9})?\s{0,4}\)|#[0-9a-f]{3}0$|#[0-9a-f]{6}00)/,
    ) ||
    isOffScreen(rules) ||
    isSqueezed(rules) ||
    isCamouflaged(rules)
  );
}

/** A share (`0.02`, `2%`) so small that nothing is left to see. */
function isFaint(value: string | undefined): boolean {
  const share = Number.parseFloat(value ?? "") / (value?.includes("%") ? 100 : 1);
  return share < 0.06;
}

/** A size at which nobody reads. */
function isTiny(value: string | undefined): boolean {
  const size = Number.parseFloat(value ?? "");
  if (value === undefined || Number.isNaN(size)) return false;
  if (/^[\d.]{1,12}\s{0,3}(?:em|rem)/.test(value)) return size < 0.15;
  return /^[\d.]{1,12}\s{0,3}%/.test(value) ? size < 15 : size < 2;
}

const zero = /^[01](?:px|pt)?(?:!|\s|$)|^0(?:em|rem|%|vh|vw)?(?:!|\s|$)/;
const farAway = /^-\d{3,}/;

function isOffScreen(rules: ReadonlyMap<string, string>): boolean {
  const far = (name: string) => farAway.test(rules.get(name) ?? "");
  if (
    far("text-indent") ||
    far("margin-left") ||
    far("margin-top") ||
    /translate[xy3d]{0,2}\(\s{0,4}-\d{3,}/.test(rules.get("transform") ?? "")
  )
    return true;
  return (
    /^(?:absolute|fixed|relative)/.test(rules.get("position") ?? "") &&
    ["left", "top", "right", "bottom"].some(far)
  );
}

/** No room to show anything, and what is larger is cut off. */
function isSqueezed(rules: ReadonlyMap<string, string>): boolean {
  if (!/^hidden|^clip/.test(rules.get("overflow") ?? "")) return false;
  return ["height", "max-height", "width", "max-width"].some((name) => zero.test(rules.get(name) ?? ""));
}

/** Text in the colour of its own background. */
function isCamouflaged(rules: ReadonlyMap<string, string>): boolean {
  const ink = colour(rules.get("color"));
  const paper = colour(rules.get("background-color") ?? rules.get("background"));
  return ink !== "" && ink === paper;
}

function colour(value: string | undefined): string {
  const text = (value ?? "").replace(/\s{1,20}|!important/g, "");
  const short = /^#([0-9a-f])([0-9a-f])([0-9a-f])$/.exec(text);
  if (short) return `#${short[1]}${short[1]}${short[2]}${short[2]}${short[3]}${short[3]}`;
  return (
    { white: "#ffffff", black: "#000000", "rgb(255,255,255)": "#ffffff", "rgb(0,0,0)": "#000000" }[text] ??
    text
  );
}

/** The style attribute as a map, names and values in lower case; the last of a name wins, as in a browser. */
function declarations(style: string): ReadonlyMap<string, string> {
  const rules = new Map<string, string>();
  const text = style.slice(0, 4000).toLowerCase();
  for (const rule of (text.includes("/*") ? withoutComments(text) : text).split(";")) {
    const colon = rule.indexOf(":");
    if (colon > 0) rules.set(rule.slice(0, colon).trim(), rule.slice(colon + 1).trim());
  }
  return rules;
}

function withoutComments(text: string): string {
  let out = "";
  let at = 0;
  for (;;) {
    const open = text.indexOf("/*", at);
    if (open < 0) return out + text.slice(at);
    out += text.slice(at, open);
    const close = text.indexOf("*/", open + 2);
    if (close < 0) return out;
    at = close + 2;
  }
}
