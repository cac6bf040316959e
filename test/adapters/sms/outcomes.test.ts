// The tables that map a provider's error codes to classes.

import { expect, it } from "vitest";
import { classes } from "../../../adapters/sms/outcomes.ts";

it("maps codes that are words as well as numbers", () => {
  const codes = classes({ rate: [429, "throttled"], recipient: ["INVALID_NUMBER"] });
  expect([codes.get(429), codes.get("throttled"), codes.get("INVALID_NUMBER")]).toEqual(["rate", "rate", "recipient"]);
  expect(codes.get("429")).toBeUndefined();
});
