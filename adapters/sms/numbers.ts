// Canonical form of every address that can send or receive a text.

import { parsePhoneNumberFromString } from "libphonenumber-js/core";
import { type CountryCode, getCountries, getCountryCallingCode, isSupportedCountry } from "libphonenumber-js/min";
import metadata from "libphonenumber-js/min/metadata";

/** Prefixes of other services that providers carry over the same API. They are a permanent part of the address. */
const prefixed = /^(whatsapp|rcs|messenger):(.+)$/is;
const shortCode = /^\d{3,8}$/;
/** Up to eleven letters, digits and a few signs, one letter at least (3GPP TS 23.040, 9.1.2.5). */
const senderName = /^(?=.*[A-Za-z])[A-Za-z0-9 +&_-]{1,11}$/;

/** Each calling code with its main country only. The parser would match a number against the patterns of all 25 countries
 *  behind +1, to determine a country that is not needed here. */
const mainCountries = {
  ...metadata,
  country_calling_codes: Object.fromEntries(
    Object.entries(metadata.country_calling_codes).map(([code, [main = "US"]]) => [code, [main]]),
  ),
};

/** Returns true for a country whose national numbers can be parsed: `DE`, `US`. */
export function isCountry(text: string): text is CountryCode {
  return isSupportedCountry(text);
}

/** Returns E.164 (`+15550100`), a short code, or an unchanged sender name, each with its prefix
 *  (`whatsapp:+15550100`). Returns null for an address that can neither send nor receive a text.
 *  National numbers are parsed only when `country` is given. */
export function canonicalNumber(text: string, country?: CountryCode): string | null {
  return text.length > longest
    ? canonical(text, country)
    : kept(numbers, `${country ?? ""} ${text}`, () => canonical(text, country));
}

/** One text message has its sender and recipient parsed several times, and the same customers write again.
 *  Longer texts are no addresses and are not kept. */
const longest = 80;
/** Maximum number of results that are kept: a few hundred kilobytes. */
const mostKept = 1000;
const numbers = new Map<string, string | null>();
const countries = new Map<string, readonly string[]>();

/** Returns the kept result of that key, or computes and keeps it in place of the oldest one. */
function kept<T>(results: Map<string, T>, key: string, compute: () => T): T {
  const found = results.get(key);
  if (found !== undefined) return found;
  const result = compute();
  if (results.size >= mostKept) results.delete(results.keys().next().value ?? "");
  results.set(key, result);
  return result;
}

function canonical(text: string, country?: CountryCode): string | null {
  const trimmed = text.trim();
  const [, prefix, rest] = prefixed.exec(trimmed) ?? [];
  if (prefix !== undefined && rest !== undefined) {
    const name = prefix.toLowerCase();
    const inner = insideOf(name, rest, country);
    return inner === null ? null : `${name}:${inner}`;
  }
  if (shortCode.test(trimmed)) return trimmed;
  return number(trimmed, country) ?? (senderName.test(trimmed) ? trimmed : null);
}

/** A Messenger page or user is an id. An RCS agent has a name; its recipients have phone numbers. */
function insideOf(service: string, text: string, country?: CountryCode): string | null {
  if (service === "whatsapp") return number(text, country);
  const phone = text.trim().startsWith("+") && service === "rcs" ? number(text, country) : null;
  return phone ?? /^[\w.@-]{1,64}$/.exec(text.trim())?.[0] ?? null;
}

function number(text: string, country?: CountryCode): string | null {
  const dialled = text
    .trim()
    .replace(/^tel:/i, "")
    .replace(/^00(?=[1-9])/, "+");
  // The parser would read letters as keypad digits and ignore text before a number.
  if (!/^\+?[\d\s()./-]+$/.test(dialled)) return null;
  const digits = `+${dialled.replace(/\D/g, "")}`;
  if (!dialled.startsWith("+")) return country ? parsed(dialled, country) : null;
  // Numbers of new ranges and of test networks are in no table, so only their form is checked.
  return parsed(dialled) ?? (/^\+[1-9]\d{6,14}$/.test(digits) ? digits : null);
}

function parsed(text: string, country?: CountryCode): string | null {
  const options = { extract: false, ...(country ? { defaultCountry: country } : {}) };
  const found = parsePhoneNumberFromString(text, options, country ? metadata : mainCountries);
  return found?.isPossible() ? found.number : null;
}

/** Returns the countries of an international number; several share a calling code. Empty for a short
 *  code, a name or an id. */
export function countriesOf(address: string): readonly string[] {
  return address.length > longest ? countriesIn(address) : kept(countries, address, () => countriesIn(address));
}

function countriesIn(address: string): readonly string[] {
  const found = parsePhoneNumberFromString(address.replace(/^[a-z]+:/i, ""), { extract: false }, mainCountries);
  if (found === undefined) return [];
  return getCountries().filter((country) => getCountryCallingCode(country) === found.countryCallingCode);
}
