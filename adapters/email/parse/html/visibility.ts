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
    /(?:^|\s)(0(?:\.0{1,4})?|\d{0,4}\.?\d{1,4}(?:[a-z]{2,4}|%))(?:\/|\s)/.exec(rules.get("font") ?? "")?.[1];
  if (value === undefined) return parent;
  const length = lengthOf(value);
  if (length === null) return /^(?:xx|x-|sma|med|lar|init)/.test(value) ? 16 : parent;
  const { amount, unit } = length;
  // A browser ignores a size without a unit, unless it is zero.
  if (amount < 0 || (unit === "" && amount !== 0)) return parent;
  if (unit === "em" || unit === "ex" || unit === "ch") return amount * parent;
  if (unit === "%") return (amount / 100) * parent;
  if (unit === "" || unit === "px") return amount;
  // The other units are all larger than a pixel.
  return unit === "rem" ? amount * 16 : amount * 1.33;
}

/** Returns the number at the start of a value and its unit, "" when it has none; null for a keyword. */
function lengthOf(value: string): { readonly amount: number; readonly unit: string } | null {
  const text = value.slice(0, 100).replace(/^calc\(/, "");
  const amount = Number.parseFloat(text);
  if (Number.isNaN(amount)) return null;
  return { amount, unit: /^[\s+-]{0,9}[\d.]{1,99}(?:e[+-]?\d{1,9})?(%|[a-z]{1,9})?/.exec(text)?.[1] ?? "" };
}

/** Units in pixels, for a font of 16 pixels and a box 1000 pixels wide. */
const unitPixels: ReadonlyMap<string, number> = new Map([
  ...["", "px"].map((unit) => [unit, 1] as const),
  ...["em", "rem", "pc"].map((unit) => [unit, 16] as const),
  ...["ex", "ch"].map((unit) => [unit, 8] as const),
  ...([
    ["pt", 1.33],
    ["q", 0.95],
    ["mm", 3.8],
    ["cm", 38],
    ["in", 96],
    ["%", 10],
  ] as const),
]);
/** Pixels of any other unit: a hundredth of a window 2000 pixels wide. */
const windowUnit = 20;

/** Returns a length in pixels; null for a keyword. A negative percentage counts as fewer pixels than a positive one: styles
 *  that centre a box move it back by half of its size, which does not hide it. */
function pixelsOf(value: string | undefined): number | null {
  const length = lengthOf(value ?? "");
  if (length === null) return null;
  const { amount, unit } = length;
  return unit === "%" && amount < 0 ? amount : amount * (unitPixels.get(unit) ?? windowUnit);
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
    isShrunk(rules) ||
    callsIn(rules.get("filter")).some(isFaintFilter) ||
    [...callsIn(rules.get("clip")), ...callsIn(rules.get("clip-path"))].some(isEmptyClip) ||
    isOffScreen(rules) ||
    isSqueezed(rules)
  );
}

/** True for a fraction (`0.02`, `2%`) so small that nothing is visible. */
function isFaint(value: string | undefined): boolean {
  const share = Number.parseFloat(value ?? "") / (value?.includes("%") ? 100 : 1);
  return share < 0.06;
}

/** A function in a value, such as `scale(0, 1)`. */
interface CssCall {
  readonly name: string;
  readonly given: readonly string[];
}

/** Characters of a value that are searched for functions. */
const maxValue = 4000;

function callsIn(value: string | undefined): readonly CssCall[] {
  if (value === undefined) return [];
  const text = value.slice(0, maxValue).replaceAll("calc(", "");
  const found = text.matchAll(/(?<![\w-])([a-z][a-z0-9-]{0,20})\(([^()]{0,4000})/g);
  return Array.from(found, ([, name = "", inside = ""]) => ({ name, given: partsOf(inside) }));
}

const partsOf = (text: string): readonly string[] => text.split(/[\s,]+/).filter((part) => part !== "");

/** True when the text is scaled to nothing. */
function isShrunk(rules: CssRules): boolean {
  const calls = callsIn(rules.get("transform")).filter(({ name }) => /^scale(?:x|y|3d)?$/.test(name));
  const property = partsOf((rules.get("scale") ?? "").slice(0, 100));
  // The third factor is the depth.
  return [...calls.map((call) => call.given), property].some((factors) =>
    factors.slice(0, 2).some((factor) => isFaint(factor.replace(/^-/, ""))),
  );
}

/** True for `opacity(0)` and for the filter of old programs, `alpha(opacity=0)`. */
const isFaintFilter = ({ name, given: [amount = ""] }: CssCall): boolean =>
  name === "opacity" ? isFaint(amount) : name === "alpha" && isFaint(`${amount.replace("opacity=", "")}%`);

/** A width, height or radius of at most this many pixels shows no text. */
const leastExtent = 1;

/** True for a clipping shape that shows nothing. */
function isEmptyClip({ name, given }: CssCall): boolean {
  if (name === "rect") {
    // The edges have distances from the top and left of the box; `auto` is the edge of the box itself.
    const [top, right, bottom, left] = given.map(pixelsOf);
    return (right ?? Infinity) - (left ?? 0) <= leastExtent || (bottom ?? Infinity) - (top ?? 0) <= leastExtent;
  }
  if (name === "inset") {
    const round = given.indexOf("round");
    const [top = 0, right = top, bottom = top, left = right] = given
      .slice(0, round < 0 ? 4 : Math.min(round, 4))
      .map((distance) => pixelsOf(distance) ?? 0);
    return top + bottom >= 1000 || left + right >= 1000;
  }
  if (name === "circle" || name === "ellipse") {
    const radii = given.slice(0, name === "circle" ? 1 : 2).map(pixelsOf);
    return radii.some((radius) => radius !== null && radius <= leastExtent);
  }
  return name === "polygon" && isFlat(given.filter((part) => part !== "nonzero" && part !== "evenodd").map(pixelsOf));
}

/** True when all points of a polygon are on one line. `coordinates`: x and y of each point in turn. */
function isFlat(coordinates: readonly (number | null)[]): boolean {
  const [x0, y0] = coordinates;
  if (x0 == null || y0 == null || coordinates.includes(null)) return false;
  const from = coordinates.map((coordinate, at) => (coordinate ?? 0) - (at % 2 === 0 ? x0 : y0));
  // The triangles between the first point and two others in turn; each has an area of zero when all are on one line.
  let area = 0;
  for (let at = 2; at + 3 < from.length; at += 2) {
    const [x1 = 0, y1 = 0, x2 = 0, y2 = 0] = from.slice(at, at + 4);
    area += Math.abs(x1 * y2 - x2 * y1) / 2;
  }
  return area <= leastExtent;
}

/** Text that is moved this many pixels to the left or up is off the screen. */
const farOut = 100;
/** Text that is moved this many pixels to the right, or down, is beyond all that a reader scrolls to. Messages that were
 *  made of documents have text many pages further down. */
const farRight = 2000;
const farDown = 30_000;

/** True when the text is moved off the screen. Movements in both directions are added, because a hanging indent (`margin-left:
 *  144pt; text-indent: -144pt`) and a centred box (`left: 50%; margin-left: -200px`) are visible. */
function isOffScreen(rules: CssRules): boolean {
  const by = (name: string) => pixelsOf(rules.get(name)) ?? 0;
  const isFar = (pixels: number, most: number) => pixels <= -farOut || pixels >= most;
  const placed = /^(?:absolute|fixed|relative)/.test(rules.get("position") ?? "");
  const [right, down] = translationOf(rules);
  const across = right + by("margin-left") + by("padding-left") + (placed ? by("left") : 0);
  return (
    isFar(across, farRight) ||
    isFar(across + by("text-indent"), farRight) ||
    isFar(down + by("margin-top") + (placed ? by("top") : 0), farDown) ||
    (placed && (isFar(by("right"), farRight) || isFar(by("bottom"), farDown)))
  );
}

/** Returns how many pixels the element is moved to the right and down, by a transform or by `translate`. */
function translationOf(rules: CssRules): readonly [number, number] {
  const given = (rules.get("translate") ?? "").slice(0, 100);
  const moves = [...callsIn(rules.get("transform")), { name: "translate", given: partsOf(given) }];
  let right = 0;
  let down = 0;
  for (const {
    name,
    given: [first, second],
  } of moves) {
    if (name === "translatey") down += pixelsOf(first) ?? 0;
    else if (/^translate(?:x|3d)?$/.test(name)) {
      right += pixelsOf(first) ?? 0;
      if (name !== "translatex") down += pixelsOf(second) ?? 0;
    }
  }
  return [right, down];
}

/** True when a dimension of the box is zero and it does not show what exceeds it. */
function isSqueezed(rules: CssRules): boolean {
  const overflow = ["overflow", "overflow-x", "overflow-y"]
    .map((name) => (rules.get(name) ?? "").slice(0, 50))
    .join(" ");
  if (!/hidden|clip|auto|scroll/.test(overflow)) return false;
  const isThin = (pixels: number | null) => pixels !== null && pixels >= 0 && pixels <= leastExtent;
  return (
    ["height", "max-height", "width", "max-width"].some((name) => isThin(pixelsOf(rules.get(name)))) ||
    isThin(lineHeightOf(rules))
  );
}

/** Returns the height of a line in pixels. A number without a unit is a multiple of the font size. */
function lineHeightOf(rules: CssRules): number | null {
  const length = lengthOf(rules.get("line-height") ?? "");
  return length?.unit === "" ? length.amount * 16 : pixelsOf(rules.get("line-height"));
}
