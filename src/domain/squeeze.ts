// Normalizes whitespace to compare texts: platforms trim, rewrap and change line ends.

export const squeeze = (text: string): string => text.replace(/\s+/g, " ").trim();

/** `String.normalize` in linear time. Sorting a run of combining marks is quadratic, so a run is
 *  truncated to 30 of them (UAX #15, Stream-Safe Text Format). */
export const composed = (text: string, form: "NFC" | "NFKC" | "NFKD" = "NFC"): string =>
  text.replace(/(\p{M}{30})\p{M}+/gu, "$1").normalize(form);
