// Operations on agent files, the documents that an agent answers from (External API 4.3; record formats
// from the public description).

import { agentFile } from "../wire/file.ts";
import type { Page } from "../wire/page.ts";
import type { Caller, Line, QueryOf } from "./caller.ts";
import type { CallResult } from "./exchange.ts";
import type { CallOptions } from "./options.ts";
import { one, pageOf } from "./reading.ts";
import type { AgentFile } from "./records.ts";

export interface Upload {
  readonly fileName: string;
  /** The whole file, held in memory. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Default: derived from the file name, which most platforms use. */
  readonly mediaType?: string;
  /** Adds the file to the search index immediately. */
  readonly autoAddToVectorStore?: boolean;
}

export interface Files {
  /** POST /external/agent-files/upload: uploads one file as a form. It is searchable after
   *  `addToAssistant`. */
  upload(file: Upload, options?: CallOptions): Promise<CallResult<AgentFile>>;
  /** GET /external/agent-files/by-api-key: returns one page. */
  list(query?: QueryOf<"listFiles">, options?: CallOptions): Promise<CallResult<Page<AgentFile>>>;
  /** GET /external/agent-files/{id}/content: returns the document as it was uploaded. */
  content(id: string, options?: CallOptions): Promise<CallResult<Uint8Array>>;
  /** PUT /external/agent-files/{id}/add-to-assistant: makes the document available to the agent's
   *  answers. */
  addToAssistant(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** PUT /external/agent-files/{id}/add-to-vector-store: another name of the same operation. */
  addToVectorStore(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** PUT /external/agent-files/{id}/add-to-vector-store/async: the same operation, without waiting until
   *  the document is read. */
  addToVectorStoreAsync(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** DELETE /external/agent-files/{id}/delete-from-vector-store: removes it from the agent's index. The
   *  document remains stored. */
  removeFromVectorStore(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** DELETE /external/agent-files/{id}/delete. `missing`: the file does not exist. */
  delete(id: string, options?: CallOptions): Promise<CallResult<void>>;
  /** DELETE /external/agent-files: deletes several files. Unknown ids are ignored. */
  deleteMany(ids: readonly string[], options?: CallOptions): Promise<CallResult<void>>;
}

const own = { key: "agent", mayBeMissing: false } as const;
const named = { key: "agent", mayBeMissing: true } as const;
const each = "/external/agent-files/{id}";
const uploadLine: Line<"uploadFile"> = { ...own, method: "POST", path: "/external/agent-files/upload" };
const listLine: Line<"listFiles"> = { ...own, method: "GET", path: "/external/agent-files/by-api-key" };
const contentLine: Line<"getFileContent"> = { ...named, method: "GET", path: `${each}/content` };
const assistantLine: Line<"addFileToAssistant"> = {
  ...named,
  method: "PUT",
  path: `${each}/add-to-assistant`,
};
const storeLine: Line<"addFileToVectorStore"> = {
  ...named,
  method: "PUT",
  path: `${each}/add-to-vector-store`,
};
const storeAsyncLine: Line<"addFileToVectorStoreAsync"> = {
  ...named,
  method: "PUT",
  path: `${each}/add-to-vector-store/async`,
};
const removeLine: Line<"removeFileFromVectorStore"> = {
  ...named,
  method: "DELETE",
  path: `${each}/delete-from-vector-store`,
};
const deleteLine: Line<"deleteFile"> = { ...named, method: "DELETE", path: `${each}/delete` };
const deleteManyLine: Line<"deleteFiles"> = { ...own, method: "DELETE", path: "/external/agent-files" };

export function filesOf({ call, json }: Caller): Files {
  const record = json(one(agentFile.read));
  const page = json(pageOf(agentFile.read));
  const bytes = { form: "bytes", read: (body: Uint8Array) => body } as const;
  const nothing = { form: "nothing", value: undefined } as const;
  const done =
    (
      line:
        | typeof assistantLine
        | typeof storeLine
        | typeof storeAsyncLine
        | typeof removeLine
        | typeof deleteLine,
    ) =>
    (id: string, options?: CallOptions) =>
      call<void>(line, { names: { id }, answer: nothing }, options);
  return {
    async upload(file, options) {
      return call(uploadLine, { form: await formOf(file), answer: record }, options);
    },
    list: (query, options) => call(listLine, { query, answer: page }, options),
    content: (id, options) => call(contentLine, { names: { id }, answer: bytes }, options),
    addToAssistant: done(assistantLine),
    addToVectorStore: done(storeLine),
    addToVectorStoreAsync: done(storeAsyncLine),
    removeFromVectorStore: done(removeLine),
    delete: done(deleteLine),
    deleteMany: (fileIds, options) => call(deleteManyLine, { body: { fileIds }, answer: nothing }, options),
  };
}

/** Returns the form's bytes and its content type with the boundary. */
async function formOf({ fileName, bytes, mediaType, autoAddToVectorStore }: Upload) {
  const form = new FormData();
  form.set("file", new File([bytes], fileName, mediaType === undefined ? {} : { type: mediaType }));
  if (autoAddToVectorStore !== undefined) form.set("autoAddToVectorStore", String(autoAddToVectorStore));
  const encoded = new Response(form);
  const type = encoded.headers.get("content-type") ?? "multipart/form-data";
  return { type, bytes: new Uint8Array(await encoded.arrayBuffer()) };
}
