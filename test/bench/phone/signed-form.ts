// Posts forms with Twilio's signature over kept connections.

import { createHmac } from "node:crypto";
import { Agent, request } from "node:http";
import { clock } from "../clock.ts";

/** Subjects read it from the environment variable BENCH_PASSWORD. */
export const authToken = "secret";
/** The public address of all subjects, over which requests are signed. Requests go to their local ports. */
export const publicUrl = "https://bridge.example.com";
export const accountSid = "ACbench";

const sign = (text: string): string => createHmac("sha1", authToken).update(text).digest("base64");

/** The signature of an upgrade: over the address alone. */
export const signUrl = sign;

/** Posts; resolves with the answer's body and the milliseconds until it was there. Rejects when it is not 200. */
export function postForm(
  url: string,
  form: Readonly<Record<string, string>>,
  agent: Agent,
): Promise<{ readonly ms: number; readonly body: string }> {
  const names = Object.keys(form).sort();
  const signature = sign(publicUrl + new URL(url).pathname + names.map((name) => name + form[name]).join(""));
  const body = new URLSearchParams(form).toString();
  const headers = {
    "content-type": "application/x-www-form-urlencoded; charset=utf-8",
    "content-length": Buffer.byteLength(body),
    "x-twilio-signature": signature,
  };
  return new Promise((resolve, reject) => {
    const began = clock();
    const posting = request(url, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => (text += chunk.toString()));
      response.on("end", () => {
        if (response.statusCode === 200) resolve({ ms: clock() - began, body: text });
        else reject(new Error(`${url} answered ${response.statusCode}: ${text}`));
      });
    });
    posting.once("error", reject);
    posting.end(body);
  });
}

export const connections = (count: number): Agent => new Agent({ keepAlive: true, maxSockets: count });
