// Which text of an HTML message a reader cannot see, by its style. Hidden text can carry instructions to the agent that
// no person has read.

import type { Element } from "domhandler";
import { type Colour, type CssRules, colourOf, contrast, isVivid, white } from "./css.ts";

/** The style of text in an element; children inherit it. */
export interface TextStyle {
  readonly visible: boolean;
  /** Pixels. */
  readonly size: number;
  /** The text colour; null when it is unknown or not set. */
  readonly ink: Colour | null;
  /** The background colour; null when unknown, such as an image. */
  readonly paper: Colour | null;
  readonly link: boolean;
}

/** The default style of a mail client, of text and of links. */
export const plainLook: TextStyle = { visible: true, size: 16, ink: null, paper: white, link: false };
export const linkLook: TextStyle = { ...plainLook, link: true };

/** True for an element whose style differs from that around it, apart from links. */
export const isStyled = ({ name, attribs }: Element, rules: CssRules): boolean =>
  rules.size > 0 ||
  name === "font" ||
  attribs["bgcolor"] !== undefined ||
  attribs["background"] !== undefined ||
  attribs["text"] !== undefined;

/** Returns the style of the text in a styled element; `parent` is the style around it. Children can override all of it. */
export function lookOf(element: Element, rules: CssRules, parent: TextStyle): TextStyle {
  const { bgcolor, background, text, color, size } = element.attribs;
  const link = parent.link || element.name === "a";
  let { visible, ink, paper } = parent;
  const visibility = rules.get("visibility");
  if (visibility !== undefined) visible = !/^(?:hidden|collapse)/.test(visibility);
  if (element.name === "body" && text !== undefined) ink = colourOf(text, ink);
  if (element.name === "font" && color !== undefined) ink = colourOf(color, ink);
  const own = rules.get("-webkit-text-fill-color") ?? rules.get("color");
  if (own !== undefined) ink = colourOf(own, ink);
  if (bgcolor !== undefined) paper = colourOf(bgcolor, paper);
  if (background !== undefined) paper = null;
  for (const name of ["background", "background-color"]) {
    const value = rules.get(name);
    if (value !== undefined) paper = paperOf(value, paper);
  }
  let px = sizeOf(rules, parent.size);
  if (element.name === "font" && size !== undefined && rules.get("font-size") === undefined)
    px = isZero(size) ? 0 : Math.max(px, 10);
  return { visible, size: px, ink, paper, link };
}

/** Text with lower contrast counts as hidden. Light grey on white, as in footers, is above this value. */
const leastContrast = 1.2;
/** Text smaller than this many pixels counts as hidden. */
const leastSize = 2.4;

/** True when a reader sees text of this style. `colours`: whether colours are compared. */
export function isReadable({ visible, size, ink, paper }: TextStyle, colours: boolean): boolean {
  if (!visible || size < leastSize) return false;
  if (ink === null || !colours) return true;
  if (ink.alpha < 0.06) return false;
  return paper === null || contrast(ink, paper) >= leastContrast;
}

/** True for text in a strong colour, which customers use to separate their answers from our text around
 *  them. Links do not count, because they have a default colour. */
export function isColoured({ ink, link }: TextStyle): boolean {
  return ink !== null && !link && isVivid(ink);
}

/** Returns the background colour. A transparent background returns the parent's; images and gradients are unknown. */
function paperOf(value: string, parent: Colour | null): Colour | null {
  if (/url\(|gradient/.test(value)) return null;
  if (/^(?:none|inherit|initial|unset|transparent|0)\b/.test(value)) return parent;
  const colour = colourOf(/(?:#|rgb|hsl)[^;!]{0,60}|^[a-z]{3,22}/.exec(value)?.[0] ?? "", null);
  return colour !== null && colour.alpha < 0.3 ? parent : colour;
}

function sizeOf(rules: CssRules, parent: number): number {
  const value =
    rules.get("font-size") ??
    /(?:^|\s)(\d{0,4}\.?\d{1,4}(?:px|pt|em|rem|%|vw)?)(?:\/|\s)/.exec(rules.get("font") ?? "")?.[1];
  if (value === undefined) return parent;
  const [, number, unit] =
    /^(?:calc\(\s{0,5})?(\d{0,6}\.?\d{0,6})\s{0,3}(px|pt|em|rem|ex|ch|%|vw|vh|pc|in|cm|mm|q)?/.exec(value) ?? [];
  if (number === undefined || number === "" || number === ".")
    return /^(?:xx|x-|sma|med|lar|init)/.test(value) ? 16 : parent;
  const amount = Number(number);
  if (unit === "em" || unit === "ex" || unit === "ch") return amount * parent;
  if (unit === "%") return (amount / 100) * parent;
  if (unit === undefined || unit === "px") return amount;
  // The other units are all larger than a pixel.
  return unit === "rem" ? amount * 16 : amount * 1.33;
}

/** True for a width, height or size of zero. */
export const isZero = (value: string | undefined) =>
  value !== undefined && /^\s{0,4}0+(?:\.0*)?(?:px|%)?\s{0,4}$/.test(value.slice(0, 20));

/** True when the style hides the element and all its content. */
export function hidesByStyle(rules: CssRules): boolean {
  const is = (name: string, test: RegExp) => {
    const value = rules.get(name);
    return value !== undefined && test.test(value);
  };
  return (
    is("display", /^none/) ||
    is("mso-hide", /^all/) ||
    is("content-visibility", /^hidden/) ||
    isFaint(rules.get("opacity")) ||
    isFaint(rules.get("zoom")) ||
    is("transform", /scale(?:x|y|3d)?\(0(?:[.)\s,]0*|\))/) ||
    is("filter", /opacity\(0|opacity=0\)/) ||
    is("clip", /^rect\((?:0(?:px)?|1px)[\s,]/) ||
    is("clip-path", /^inset\((?:50|100)%|^circle\(0|^polygon\(0(?:px)?\s0/) ||
    isOffScreen(rules) ||
    isSqueezed(rules)
  );
}

/** True for a fraction (`0.02`, `2%`) so small that nothing is visible. */
function isFaint(value: string | undefined): boolean {
  const share = Number.parseFloat(value ?? "") / (value?.includes("%") ? 100 : 1);
  return share < 0.06;
}

const zero = /^[01](?:px|pt)?(?:!|\s|$)|^0(?:em|rem|%|vh|vw)?(?:!|\s|$)/;
const farAway = /^-\d{3,}/;

function isOffScreen(rules: CssRules): boolean {
  const far = (name: string) => farAway.test(rules.get(name) ?? "");
  if (
    far("text-indent") ||
    far("margin-left") ||
    far("margin-top") ||
    /translate[xy3d]{0,2}\(\s{0,4}-\d{3,}/.test(rules.get("transform") ?? "")
  )
    return true;
  return (
    /^(?:absolute|fixed|relative)/.test(rules.get("position") ?? "") && ["left", "top", "right", "bottom"].some(far)
  );
}

/** True when a dimension of the box is zero and its overflow is hidden. */
function isSqueezed(rules: CssRules): boolean {
  if (!/^hidden|^clip/.test(rules.get("overflow") ?? "")) return false;
  return ["height", "max-height", "width", "max-width", "line-height"].some((name) => zero.test(rules.get(name) ?? ""));
}
