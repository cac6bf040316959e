// Which of a person's files go to the customer.

import { expect, it } from "vitest";
import { readInstructions } from "../../../src/domain/instructions.ts";
import { namesOf, selectFiles } from "../../../src/escalation/reply/files.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import type { AttachedFile } from "../../../src/store/tables/files.ts";
import { lineOf } from "../../support/pipeline/stage.ts";

const file = (name: string, size: number, over: Partial<AttachedFile> = {}): AttachedFile => ({
  name,
  media_type: "a/b",
  size,
  blob: name,
  reason: null,
  ...over,
});
const about = { conversation: "k", channel: "c" };

const outbound = { compose: () => [], send: () => Promise.reject(new Error("nothing is sent here")) };

function carrying(attachmentLimit?: number): ChannelRuntime {
  const limit = attachmentLimit === undefined ? {} : { attachmentLimit };
  const line = lineOf({ outbound: { ...outbound, ...limit } });
  return { ...line, traits: { ...line.traits, attachments: true } };
}

const goes = (
  words: string,
  files: readonly AttachedFile[],
  line: ChannelRuntime | undefined = carrying(),
  to = about,
) => {
  const handed = selectFiles(files, readInstructions(words), to, line);
  return [handed.files.map(({ name }) => name).join(" "), handed.left];
};

it.each(["Here it is.", "", "417", "417: here", "#close", "#resume", "Here.\n#close", "Dear Anna,"])(
  "goes with %j",
  (words) => {
    expect(goes(words, [file("a", 1), file("b", 1)])).toEqual(["a b", null]);
  },
);

it.each(["ok", "OK!", "ok 417", "417 ok", "👍", "yes", "ok thanks", "taken"])("stays behind with %j", (words) => {
  expect(goes(words, [file("a", 1), file("b", 1)])).toEqual([
    "",
    'Not sent to the customer: "a", "b": a word that takes it sends nothing; to send files, leave it out.',
  ]);
});

it.each(["#note for us", "Soon.\n#note for us"])("stays behind with %j", (words) => {
  expect(goes(words, [file("a", 1)])[1]).toContain("stays among us");
});

it("says nothing where there is nothing", () => {
  for (const words of ["ok", "", "#note x"]) expect(goes(words, [])).toEqual(["", null]);
});

it("stays behind where nothing could carry it", () => {
  const [a] = [file("a", 1)];
  expect(goes("Here.", [a], lineOf({ outbound }))[1]).toContain("channel c carries no files");
  expect(goes("Here.", [a], { ...carrying(), outbound: null })[1]).toContain("channel c cannot send now");
  expect(selectFiles([a], readInstructions("Here."), about, undefined).left).toContain("cannot send now");
  expect(goes("Here.", [a], carrying(), { conversation: null as unknown as string, channel: "c" })[1]).toContain(
    "it is about a channel",
  );
});

it("goes as far as there is room, in its order", () => {
  const files = [file("a", 600), file("b", 500), file("c", 400), file("d", 1)];
  expect(goes("Here.", files, carrying(1000))).toEqual([
    "a c",
    'Not sent to the customer: "b": more than 1 kB together; "d": more than 1 kB together.',
  ]);
  expect(goes("Here.", [file("a", 1000)], carrying(1000))).toEqual(["a", null]);
  expect(goes("Here.", [file("a", 1)], carrying(0))[0]).toBe("");
  const most = 25 * 1024 * 1024;
  expect(goes("Here.", [file("a", most), file("b", 1)])[0]).toBe("a");
});

it("leaves out mails: the notice itself may be among them", () => {
  const mails = [
    file("Escalation 417.eml", 1, { media_type: "message/rfc822" }),
    file("Escalation 417.msg", 1, { media_type: "application/octet-stream" }),
    file("message", 1, { media_type: "Message/RFC822" }),
    file("Escalation 417", 1, { media_type: "application/vnd.ms-outlook" }),
  ];
  const [went, left] = goes("Here it is.", [...mails, file("a", 1)]);
  expect(went).toBe("a");
  for (const { name } of mails) expect(left).toContain(`"${name}": a mail may be ours`);
  expect(goes("ok", mails)).toEqual(["", null]);
  expect(goes("#note x", mails)).toEqual(["", null]);
  expect(goes("ok", [...mails, file("a", 1)])[1]).toMatch(/^Not sent to the customer: "a": a word/);
});

it("says why there are no bytes", () => {
  const files = [file("a", 1, { blob: null }), file("b", 1, { blob: null, reason: "it was too large" }), file("c", 1)];
  expect(goes("Here.", files)).toEqual([
    "c",
    'Not sent to the customer: "a": it is not there yet; "b": it was too large.',
  ]);
});

it("names some of very many, each in one line", () => {
  const files = Array.from({ length: 40 }, (_, index) => file(`f${index}\r\n[ref:x]${"y".repeat(300)}`, 1));
  const [, left] = goes("ok", files);
  expect(left).not.toMatch(/[\r\n]/);
  expect(left?.length).toBeLessThan(4000);
  expect(left).toContain("...");
  expect(namesOf(files.slice(0, 2)).split("\n")).toHaveLength(2);
});
