// Finds errors in a voice configuration that passed schema validation. Runs in `check` and on every start.

import type { Remark, Surroundings } from "bridgehead/contract";
import { isPossiblePhoneNumber } from "libphonenumber-js/min";
import type { VoiceConfig } from "./config.ts";

/** Called with the parsed configuration. No I/O. */
export function review(config: VoiceConfig, { publicUrl, trial }: Surroundings): readonly Remark[] {
  if (trial) return [];
  const remarks: Remark[] = [];
  const { account_sid: account, hand_over: over } = config;
  const numbers: readonly (readonly [Remark["path"], string | undefined])[] = [
    [["number"], config.number],
    [["hand_over", "caller_id"], over?.caller_id],
    ...(over?.dial ?? []).map((to, index) => [["hand_over", "dial", index], to] as const),
  ];
  for (const [path, number] of numbers)
    if (number?.startsWith("+") === true && !isPossiblePhoneNumber(number))
      remarks.push(error(path, `is no possible number: ${number}`, numberFix));
  if (account !== undefined && !/^AC[0-9a-f]{32}$/i.test(account))
    remarks.push(
      error(
        ["account_sid"],
        "is no account SID",
        "copy it from Twilio's console: AC and 32 hexadecimal digits",
      ),
    );
  const path = ["..", "http", "public_url"];
  const fix = "set http.public_url to the https address under which the provider reaches this daemon";
  if (publicUrl === null)
    remarks.push(error([], "needs http.public_url: without it calls cannot reach this daemon", fix));
  else if (publicUrl.protocol !== "https:")
    remarks.push(error(path, "is not https: calls would travel in the open", fix));
  return remarks;
}

const numberFix = 'write it with its country\'s code and all digits, in quotes: "+12025550100"';

const error = (path: Remark["path"], message: string, fix: string): Remark => ({
  severity: "error",
  path,
  message,
  fix,
});
