// How `init` asks and reports: on a terminal with prompts, otherwise with lines of text and without questions.

import type { Io } from "../io.ts";

export interface Prompter {
  /** False when every answer has to come from an option. */
  readonly asks: boolean;
  /** Resolves with the trimmed input. Throws `Stopped` at Ctrl-C. `wrong` returns the reason to ask again. When `until`
   *  aborts, the question is withdrawn and the input is empty. */
  text(
    question: string,
    hint?: string,
    wrong?: (text: string) => string | undefined,
    until?: AbortSignal,
  ): Promise<string>;
  /** Like `text`; the input is not shown. */
  secret(question: string, hint?: string): Promise<string>;
  confirm(question: string): Promise<boolean>;
  report(kind: "done" | "failed" | "note", text: string): void;
  /** Begins and ends the dialogue. */
  begin(title: string): void;
  end(text: string): void;
}

/** Thrown when the operator stops the dialogue. */
export class Stopped extends Error {}

export async function createPrompter(io: Io, asks: boolean): Promise<Prompter> {
  if (!asks) return plainPrompter(io);
  // Loaded on demand: no other command asks.
  const clack = await import("@clack/prompts");
  // Ctrl-D: without an action the end of the input would leave the question, and so the process, without a result.
  clack.updateSettings({ aliases: { "\u0004": "cancel" } });
  const { signal } = io;
  const answered = async <T>(asked: Promise<T>): Promise<Exclude<T, symbol>> => {
    const given = await asked;
    if (clack.isCancel(given) || signal.aborted) throw new Stopped("stopped by the operator");
    return given as Exclude<T, symbol>;
  };
  const check = (wrong: (text: string) => string | undefined) => (text: string | undefined) =>
    wrong((text ?? "").trim());
  return {
    asks: true,
    async text(message, hint, wrong = () => undefined, until) {
      const more = hint === undefined ? {} : { placeholder: hint };
      const asked = clack.text({ message, signal: until ?? signal, validate: check(wrong), ...more });
      const given = await asked;
      if (until?.aborted && !signal.aborted) return "";
      return ((await answered(Promise.resolve(given))) ?? "").trim();
    },
    async secret(message, hint) {
      if (hint !== undefined) clack.log.info(hint);
      const validate = check((text) => (text === "" ? "Type or paste it; it is not shown" : undefined));
      return ((await answered(clack.password({ message, signal, validate }))) ?? "").trim();
    },
    confirm: (message) => answered(clack.confirm({ message, signal, initialValue: false })),
    report(kind, text) {
      if (kind === "done") clack.log.success(text);
      else if (kind === "failed") clack.log.error(text);
      else clack.log.info(text);
    },
    begin: (title) => clack.intro(title),
    end: (text) => clack.outro(text),
  };
}

function plainPrompter(io: Io): Prompter {
  const unasked = (question: string) => Promise.reject(new Error(`no terminal to ask: ${question}`));
  return {
    asks: false,
    text: unasked,
    secret: unasked,
    confirm: unasked,
    report(kind, text) {
      if (kind === "failed") io.err(text);
      else io.out(`${kind === "done" ? "ok    " : "      "}${text}`);
    },
    begin: () => undefined,
    end: (text) => io.out(text),
  };
}
