// Reports errors of an SMS configuration block whose single keys are valid. Runs in `check` and at every
// start.

import type { Remark, Surroundings } from "bridgehead/contract";
import { isPossiblePhoneNumber } from "libphonenumber-js/min";
import type { SmsConfig } from "./config.ts";
import { isLocal } from "./twilio/settings.ts";

/** Called with a parsed block; pure. A sandbox on this machine accepts any number and account, and can
 *  always reach us. */
export function review(config: SmsConfig, { publicUrl, trial }: Surroundings): readonly Remark[] {
  if (trial || (config.api_url !== undefined && isLocal(config.api_url))) return [];
  const remarks: Remark[] = [];
  const { number, account_sid: account } = config;
  if (number?.startsWith("+") === true && !isPossiblePhoneNumber(number))
    remarks.push(error(["number"], `is no possible number: ${number}`, numberFix));
  if (config.provider === "twilio" && account !== undefined && !/^AC[0-9a-f]{32}$/i.test(account))
    remarks.push(
      error(
        ["account_sid"],
        "is no account SID",
        "copy it from Twilio's console: AC and 32 hexadecimal digits",
      ),
    );
  if (config.provider !== "smpp") remarks.push(...unreachable(publicUrl));
  return remarks;
}

const numberFix = 'write it with its country\'s code and all digits, in quotes: "+12025550100"';

/** Reports an unusable public URL. The provider posts inbound messages and delivery receipts to it. */
function unreachable(publicUrl: URL | null): readonly Remark[] {
  const path = ["..", "http", "public_url"];
  const fix = "set http.public_url to the https address under which the provider reaches this daemon";
  if (publicUrl === null)
    return [error([], "needs http.public_url: without it the provider cannot tell us of texts", fix)];
  if (publicUrl.protocol !== "https:")
    return [error(path, "is not https: texts would travel in the open", fix)];
  return [];
}

const error = (path: Remark["path"], message: string, fix: string): Remark => ({
  severity: "error",
  path,
  message,
  fix,
});
