// TwiML parser as strict as Twilio's (error 12100): rejects XML that is not well-formed.

export interface Verb {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  /** Text of the verb without that of its children. */
  readonly text: string;
  readonly children: readonly Verb[];
}

interface Open {
  readonly name: string;
  readonly attributes: Record<string, string>;
  text: string;
  readonly children: Verb[];
}

const token =
  /<!--(?:(?!--)[^])*-->|<(\/?)([A-Za-z][\w:.-]*)((?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>|([^<]+)/y;

/** Returns the verbs of a response in order. Throws an error with reason and position. */
export function readTwiml(xml: string): readonly Verb[] {
  const declared = /^\uFEFF?(?:<\?xml[^?]*\?>)?\s*/.exec(xml)?.[0].length ?? 0;
  const root: Open = { name: "", attributes: {}, text: "", children: [] };
  const path: Open[] = [root];
  const here = () => path.at(-1) ?? root;
  for (token.lastIndex = declared; token.lastIndex < xml.length; ) {
    const at = token.lastIndex;
    const found = token.exec(xml);
    if (!found) throw new Error(`bad XML at ${at}: ${xml.slice(at, at + 40)}`);
    const [, closing, name, attributes = "", empty, text] = found;
    if (text !== undefined) here().text += decoded(text);
    if (name === undefined) continue;
    if (closing) {
      if (here().name !== name) throw new Error(`</${name}> at ${at} closes <${here().name}>`);
      path.pop();
      continue;
    }
    const verb: Open = { name, attributes: attributesOf(attributes), text: "", children: [] };
    here().children.push(verb);
    if (!empty) path.push(verb);
  }
  const [response, ...more] = root.children;
  if (path.length > 1) throw new Error(`<${here().name}> is not closed`);
  if (response?.name !== "Response" || more.length > 0 || root.text.trim() !== "")
    throw new Error("not one <Response>");
  return response.children;
}

function attributesOf(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [, name = "", double, single] of text.matchAll(/([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    if (name in found) throw new Error(`attribute ${name} is there twice`);
    found[name] = decoded(double ?? single ?? "");
  }
  return found;
}

const named: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

const decoded = (text: string): string =>
  text.replace(/&(?:(\w+)|#(\d+)|#x([\da-fA-F]+));|&/g, (all, name?: string, ten?: string, hex?: string) => {
    if (ten ?? hex) return String.fromCodePoint(Number.parseInt(ten ?? hex ?? "", ten ? 10 : 16));
    const character = named[name ?? ""];
    if (character === undefined) throw new Error(`bad XML: ${all} is no entity`);
    return character;
  });
