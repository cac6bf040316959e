// The texts of a source file, found by a scanner: SQL is in texts, and a text may contain code that contains texts.

/** Between these characters and a slash there is no operand, so that the slash begins a regular expression. */
const beforeRegExp = /(?:^|[(,=:[!&|?{};+>]|\breturn)\s*$/;
const regExp = /\/(?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const comment = /\/\/.*|\/\*[\s\S]*?\*\//y;
const plain = /"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'/y;

/** Returns the code of the file, then all code that its templates contain: without comments and regular expressions, with
 *  each text in backticks and without quotation marks of identifiers. In a template, code without texts becomes `?`, and code
 *  with texts becomes `?` and these texts; a condition that selects one of two texts becomes both texts. `known` may replace
 *  code. Lines for PostgreSQL alone are removed. */
export function codeWithTexts(
  source: string,
  known: (code: string) => string | null,
): readonly [file: string, ...inTemplates: string[]] {
  const inTemplates: string[] = [];
  let at = 0;
  const matched = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(source);
    if (found !== null) at = pattern.lastIndex;
    return found;
  };

  function template(): string {
    let text = "";
    for (at += 1; at < source.length && source[at] !== "`"; )
      if (source.startsWith("${", at)) {
        at += 2;
        text += inserted(codeUntil("}"));
      } else if (source[at] === "\\") {
        text += " ";
        at += 2;
      } else text += source[at++];
    at += 1;
    return text;
  }

  function inserted(code: string): string {
    inTemplates.push(code);
    const replaced = known(code);
    if (replaced !== null) return replaced;
    const texts = [...code.matchAll(/`([^`]*)`/g)].map(([, text = ""]) => text).join(" ");
    return `${/\? `[^`]*` : `[^`]*`\s*$/.test(code) ? "" : "?"}${texts && ` ${texts} `}`;
  }

  function codeUntil(end: string | null): string {
    let code = "";
    for (let depth = 0; at < source.length; ) {
      const char = source[at] ?? "";
      if (char === end && depth === 0) break;
      if (char === "/" && (matched(comment) ?? (beforeRegExp.test(code.slice(-20)) && matched(regExp)))) continue;
      const text =
        char === "`"
          ? template()
          : matched(plain)
              ?.slice(1)
              .join("")
              .replace(/\\(["'])/g, "$1")
              .replace(/\\./g, " ");
      if (text !== undefined) {
        code += `\`${sqlOf(text)}\``;
        continue;
      }
      if (char === "{") depth += 1;
      if (char === "}") depth -= 1;
      code += char;
      at += 1;
    }
    at += 1;
    return code;
  }

  return [codeUntil(null), ...inTemplates];
}

/** Returns the text without SQL comments, and without what encloses identifiers. */
const sqlOf = (text: string): string =>
  text
    .replace(/^.*-- only: postgres.*$/gm, "")
    .replace(/--.*$/gm, "")
    .replace(/["`]|\[(?=\w+\])|(?<=\[\w+)\]/g, "");
