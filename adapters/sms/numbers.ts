// The one written form of everything a text can be sent to or come from.

import {
  type CountryCode,
  getCountries,
  getCountryCallingCode,
  isSupportedCountry,
  parsePhoneNumberFromString,
} from "libphonenumber-js/min";

/** Prefixes by which providers carry other services over the same interface; part of the address for ever. */
const prefixed = /^(whatsapp|rcs|messenger):(.+)$/is;
const shortCode = /^\d{3,8}$/;
/** Up to eleven letters, digits and a few signs, one letter at least (3GPP TS 23.040, 9.1.2.5). */
const senderName = /^(?=.*[A-Za-z])[A-Za-z0-9 +&_-]{1,11}$/;

/** True for a country that national numbers can be read in: `DE`, `US`. */
export function isCountry(text: string): text is CountryCode {
  return isSupportedCountry(text);
}

/** E.164 (`+15550100`), a short code, a sender's name as it is, each with its prefix (`whatsapp:+15550100`); null: nothing that a
 *  text could be sent to or come from. National numbers are read only when a `country` says whose they are. */
export function canonicalNumber(text: string, country?: CountryCode): string | null {
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

/** A page or a person of Messenger is an id; an agent of RCS has a name, and the people it writes to have numbers. */
function insideOf(service: string, text: string, country?: CountryCode): string | null {
  if (service === "whatsapp") return number(text, country);
  return (text.trim().startsWith("+") && service === "rcs" ? number(text, country) : null) ?? opaque(text);
}

function number(text: string, country?: CountryCode): string | null {
  const dialled = text
    .trim()
    .replace(/^tel:/i, "")
    .replace(/^00(?=[1-9])/, "+");
  // Letters would be read as the digits on their keys, and words before a number as decoration.
  if (!/^\+?[\d\s()./-]+$/.test(dialled)) return null;
  const digits = `+${dialled.replace(/\D/g, "")}`;
  if (!dialled.startsWith("+")) return country ? parsed(dialled, country) : null;
  // Numbers of new ranges and of test networks are not in any table; their form decides.
  return parsed(dialled) ?? (/^\+[1-9]\d{6,14}$/.test(digits) ? digits : null);
}

function parsed(text: string, country?: CountryCode): string | null {
  const found = parsePhoneNumberFromString(text, {
    extract: false,
    ...(country ? { defaultCountry: country } : {}),
  });
  return found?.isPossible() ? found.number : null;
}

function opaque(text: string): string | null {
  const id = text.trim();
  return /^[\w.@-]{1,64}$/.test(id) ? id : null;
}

/** The countries of an international number; several share a calling code. None for a short code, a name, an id. */
export function countriesOf(address: string): readonly string[] {
  const found = parsePhoneNumberFromString(address.replace(/^[a-z]+:/i, ""), { extract: false });
  if (found === undefined) return [];
  return getCountries().filter((country) => getCountryCallingCode(country) === found.countryCallingCode);
}
