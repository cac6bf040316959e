// Parses CSS colours, as far as the visibility of text depends on them.

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
