// What it means to plant a defect: an edit of a source as it is loaded into the daemon.

export interface Edit {
  /** From the package's folder. */
  readonly file: string;
  /** Must occur in the file, once. */
  readonly find: string;
  readonly put: string;
}

/** What somebody could plausibly write. */
export interface Defect<Invariant extends string> {
  readonly what: string;
  /** The case in which it shows. */
  readonly caught: string;
  /** One of these invariants must be broken there. */
  readonly by: readonly Invariant[];
  /** Set when nothing ever settles under it: then there is no point in waiting. */
  readonly endless?: true;
  readonly edits: readonly Edit[];
}

export type Defects<Invariant extends string> = { readonly [name: string]: Defect<Invariant> };

const ask = "src/pipeline/ask/stage.ts";

/** For edits that write where no transaction is at hand. */
export const keepDatabase: Edit = {
  file: ask,
  find: "export function askStage(deps: AskDeps): Stage {",
  put: "export function askStage(deps: AskDeps): Stage {\n  globalThis.plantedDb = deps.db;",
};

/** The source with the edits in place. Throws when one does not fit. */
export function planted(source: string, edits: readonly Edit[]): string {
  return edits.reduce((text, { file, find, put }) => {
    const parts = text.split(find);
    if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} times: ${find}`);
    return parts.join(put);
  }, source);
}
