// Operations on agent users and agent files (External API 4.3; record formats from the public description).

import * as z from "zod";
import { agentFile, deleteFilesRequest } from "../file.ts";
import { createUserRequest, user, userSearch } from "../user.ts";
import { listParameters, type Operation, pageRecord } from "./operation.ts";

const people = { key: "agent", tag: "users" } as const;
const documents = { key: "agent", tag: "files" } as const;
const done = { status: 200, record: null } as const;

export const userOperations = {
  createUser: {
    ...people,
    method: "POST",
    path: "/external/users",
    summary: "Makes a person known, by fkId, e-mail address or phone number",
    body: createUserRequest,
    answer: { status: 201, record: user.exact },
    errors: [400],
  },
  searchUser: {
    ...people,
    method: "GET",
    path: "/external/users/search",
    summary: "Finds a person and their conversations",
    query: z.object({
      email: z.string().optional(),
      phoneNumber: z.string().optional(),
      fkId: z.string().optional(),
    }),
    answer: { status: 200, record: userSearch.exact },
    errors: [400, 404],
  },
  getUser: {
    ...people,
    method: "GET",
    path: "/external/users/{id}",
    summary: "One person",
    answer: { status: 200, record: user.exact },
    errors: [404],
  },
  deleteUser: {
    ...people,
    method: "DELETE",
    path: "/external/users/{id}",
    summary: "Removes a person and everything that was said with them",
    answer: { status: 204, record: null },
    errors: [404],
  },
} as const satisfies { readonly [id: string]: Operation };

export const fileOperations = {
  uploadFile: {
    ...documents,
    method: "POST",
    path: "/external/agent-files/upload",
    summary: "Takes in a document: text, Markdown, HTML, PDF or Word",
    upload: true,
    answer: { status: 200, record: agentFile.exact },
    errors: [400, 413],
  },
  listFiles: {
    ...documents,
    method: "GET",
    path: "/external/agent-files/by-api-key",
    summary: "The agent's documents",
    query: listParameters,
    answer: { status: 200, record: pageRecord(agentFile.exact) },
    errors: [400],
  },
  getFileContent: {
    ...documents,
    method: "GET",
    path: "/external/agent-files/{id}/content",
    summary: "A document as it was uploaded",
    answer: { status: 200, record: "bytes" },
    errors: [404],
  },
  addFileToAssistant: {
    ...documents,
    method: "PUT",
    path: "/external/agent-files/{id}/add-to-assistant",
    summary: "Makes a document searchable: the agent answers from it",
    answer: done,
    errors: [400, 404],
  },
  addFileToVectorStore: {
    ...documents,
    method: "PUT",
    path: "/external/agent-files/{id}/add-to-vector-store",
    summary: "The same under its other name",
    answer: done,
    errors: [400, 404],
  },
  addFileToVectorStoreAsync: {
    ...documents,
    method: "PUT",
    path: "/external/agent-files/{id}/add-to-vector-store/async",
    summary: "The same without waiting until it is read",
    answer: done,
    errors: [404],
  },
  removeFileFromVectorStore: {
    ...documents,
    method: "DELETE",
    path: "/external/agent-files/{id}/delete-from-vector-store",
    summary: "The agent answers from it no more; the document stays",
    answer: done,
    errors: [404],
  },
  deleteFile: {
    ...documents,
    method: "DELETE",
    path: "/external/agent-files/{id}/delete",
    summary: "Removes a document",
    answer: done,
    errors: [404],
  },
  deleteFiles: {
    ...documents,
    method: "DELETE",
    path: "/external/agent-files",
    summary: "Removes several documents",
    body: deleteFilesRequest,
    answer: done,
    errors: [400],
  },
} as const satisfies { readonly [id: string]: Operation };
