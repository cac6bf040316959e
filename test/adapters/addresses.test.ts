// How addresses are written by people, and as each channel knows them.

import { describe, expect, it } from "vitest";
import { loadAdapter } from "../../src/channels/loader.ts";

const cases: Readonly<Record<string, readonly (readonly [string, string | null])[]>> = {
  email: [
    [" Anna@Example.COM ", "anna@example.com"],
    ["anna+tag@mail.example.com", "anna+tag@mail.example.com"],
    ["Anna <anna@example.com>", null],
    ["anna@example.com, bo@example.com", null],
    ["anna", null],
    ["+15550111", null],
    [`${"a".repeat(251)}@b.c`, null],
    ["", null],
  ],
  sms: [
    ["+1 555 0100 123", "+15550100123"],
    ["whatsapp:+15550100123", "whatsapp:+15550100123"],
    ["anna@example.com", null],
    ["0555 0100", null],
  ],
  voice: [
    ["+1 (555) 010-0123", "+15550100123"],
    ["anna@example.com", null],
    ["0555 0100", null],
    ["+0155501", null],
    ["", null],
  ],
};

describe.each(Object.keys(cases))("%s", (name) => {
  it.each(cases[name] ?? [])("%j is %j", async (written, address) => {
    const adapter = await loadAdapter(name, ".");
    expect(adapter.address?.(written)).toBe(address);
  });
});
