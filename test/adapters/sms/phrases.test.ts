// Requests for no more texts that are no keywords: which count as STOP, which a human must read, and which are ordinary.

import { describe, expect, it } from "vitest";
import { consentOf, isDoubtful, languages } from "../../../adapters/sms/consent.ts";
import { requestIn } from "../../../adapters/sms/phrases.ts";

const words = { languages, add: {}, remove: [] };

describe("a request for no more texts", () => {
  it.each([
    "please stop texting me",
    "Stop texting me!!",
    "STOP SENDING ME MESSAGES",
    "stop sending me text messages please",
    "Please stop",
    "stop, thank you",
    "Please opt me out.",
    "do not text me again",
    "Don't text me anymore",
    "don’t message me",
    "unsubscribe me",
    "take me off your list",
    "Please remove my number from your texting list",
    "Please unsubscribe",
    "please opt out",
    "quit please",
    "Hi, stop all please",
    "OK, end now.",
    "stop all messages",
    "stop texts",
    "STOP SMS",
    "End all of these text messages!",
    "cancel texts please",
    "No more texts please",
    "no more of your messages",
    "no more texting please",
    "don't text",
    "please do not text anymore",
    "STOP to end",
    "Stop to opt-out.",
    "STOP2END",
    "STOP STOP STOP",
    "STOP/END",
    "Stop, unsubscribe, quit please",
    "Stop stop",
    "STOPSTOP",
    "please stop! STOP!!",
    "opt out, opt out",
    "Stop all!\nStop all!",
    "STOP\n-John",
    "Stop.\r\n— Mary Ann Lee",
    "Stop please\n\n-- \nJ. O’Neill",
    "unsubscribe\nSent from my iPhone",
    "Abmelden\nVon meinem iPhone gesendet",
  ])("%j counts as STOP, with a confirmation", (text) => {
    expect(consentOf(text, words)).toEqual({
      word: "stop",
      confirmation: expect.stringContaining("START") as string,
    });
  });

  it("leads or ends a message of one hundred characters, and is ordinary in a longer one", () => {
    const more = "I am the new owner of this telephone number and I know nothing about the order in question";
    for (const text of [`Stop. ${more}`, `${more}. Stop`]) {
      expect(requestIn(text), text).toBe("doubtful");
      expect(requestIn(`${text.slice(0, -4)}, really${text.slice(-4)}`), text).toBeNull();
    }
  });

  it("does not count when the channel has removed it", () => {
    expect(consentOf("Please opt me out!", { ...words, remove: ["please opt me out"] })).toBeNull();
  });

  it.each([
    "I told you to stop texting me about this",
    "Stop contacting me",
    "If you text me again I will sue. Leave me alone",
    "please remove me from whatever this is",
    "stop it",
    "UNSUB",
    "unsuscribe please",
    "stop msg",
    "Please remove my number.",
    "退订",
    "СТОП",
    "Στοπ",
    "הסר",
    "수신거부",
    "iptal",
    "RET",
    "Odjava",
    "Відписатися.",
    "berhenti",
    "الغاء الاشتراك",
    "बंद करो",
    "please stop this",
    "отписаться, please",
    "I want to unsubscribe",
    "unsubscribe from this list",
    "how do I unsubscribe from these texts?",
    "How do I opt out?",
    "I already opted out",
    "We would like to opt out of the newsletter",
    "I don't want any more texts",
    "can you please stop all messages to this phone",
    "Stop. Wrong number",
    "STOP!!! who is this",
    "Stop, I never signed up",
    "stop - wrong person",
    "STOP\nI do not know you",
    "Please stop. You have the wrong number.",
    "Hi! Stop. Who is this?",
    "Wrong number. Stop",
    "STOP\n-not yet",
    "STOP - John",
    "STOP\nJohn",
    "СТОП. Не тот номер",
    "Reply STOP",
    "text stop to end",
    "Sent: STOP",
    "I said STOP",
    "Bitte keine SMS mehr",
    "keine Nachrichten mehr",
    "Ich möchte keine Werbung mehr von Ihnen",
    "Schicken Sie mir bitte keine SMS",
    "Hör auf!",
    "Hören Sie endlich auf, mir zu schreiben",
    "Plus de SMS svp",
    "Je ne veux plus recevoir de messages",
    "Ne m'envoyez plus rien",
    "Arrêtez de m'écrire",
    "No más mensajes",
    "No me envíen más mensajes por favor",
    "dejen de escribirme",
    "Basta messaggi",
    "Niente più SMS, grazie",
    "Non scrivetemi più",
    "smettetela di mandarmi messaggi",
    "Não quero mais mensagens",
    "Chega de SMS",
    "parem de me enviar promoções",
    "Geen berichten meer aub",
    "Stop met sms'en",
    "stuur me niet meer",
    "Nie chcę więcej wiadomości",
    "Proszę nie wysyłać więcej SMS-ów",
    "Przestańcie pisać",
  ])("%j is doubtful", (text) => {
    expect(consentOf(text, words)).toBeNull();
    expect(requestIn(text)).toBe("doubtful");
  });

  it.each([
    "please stop by tomorrow",
    "please stop by at five",
    "can I cancel my order",
    "please cancel",
    "Please end the call at five",
    "please start",
    "help please",
    "no more, thanks",
    "cancel the message",
    "When does the bus stop?",
    "STOP 12345",
    "don't stop",
    "can I opt out of the insurance?",
    "how do I unsubscribe from the newsletter?",
    "Please text me the address",
    "don't forget to text me",
    "my phone stopped sending messages",
    "I will stop sending the old form",
    "no messages",
    "remove the second item",
    "Does the bus stop here?",
    "Can you stop my order?",
    "Where is the bus stop? I am at the station.",
    "Hi. Can you stop the delivery? Thanks",
    "How do I stop the machine, and when does the shop open?",
    "Please stop the order 4711. It is the wrong size.",
    "At the end, we were late",
    "Non-stop. All day long.",
    "Did the delivery stop, start or end?",
    "Shall I text you? Don't text the old number",
    "I got your reply, stop by at five",
    "Gibt es keine Karten mehr?",
    "Warum bekomme ich keine SMS mehr?",
    "Ich habe keine Nachrichten mehr von Ihnen erhalten",
    "Plus de détails svp",
    "Je ne reçois plus de messages",
    "No recibo más mensajes, ¿por qué?",
    "No quiero más azúcar",
    "Non ricevo più messaggi",
    "Não recebo mais mensagens",
    "Ik krijg geen berichten meer",
    "Is er geen melk meer?",
    "Nie chcę więcej kawy",
    "Hört der Kurs um acht auf?",
    "no",
    "",
    `stop texting me ${"a".repeat(320)}`,
  ])("%j is an ordinary message", (text) => {
    expect(requestIn(text)).toBeNull();
    expect(consentOf(text, words)).toBeNull();
  });

  it("in a longer message is ordinary when only a word of it is mentioned", () => {
    const long = `${"The report that you asked for is ready now. ".repeat(3)}One chapter says who may opt out.`;
    expect(requestIn(long)).toBeNull();
    expect(requestIn(long.slice(-40))).toBe("doubtful");
  });

  it("is ordinary when the channel has removed the keyword in it", () => {
    const removed = { ...words, remove: ["Unsubscribe", "end"] };
    for (const body of [
      "unsubscribe",
      "Please unsubscribe",
      "END",
      "end, thanks",
      "END END",
      "end. No more.",
      "End\n-Jo",
    ]) {
      expect(consentOf(body, removed), body).toBeNull();
      expect(isDoubtful({ body }, removed), body).toBe(false);
    }
    expect(isDoubtful({ body: "I want to unsubscribe" }, removed)).toBe(true);
  });
});

describe("a courtesy", () => {
  const keywords = {
    en: ["stop", "stop all", "unsubscribe", "end", "quit", "revoke", "opt out"],
    de: ["stopp", "abmelden", "austragen"],
    fr: ["arrêt", "désabonner", "se désabonner", "désinscrire"],
    es: ["alto", "detener", "darse de baja"],
    it: ["ferma", "disiscriviti", "cancellami"],
    pt: ["pare", "descadastrar"],
    nl: ["stoppen", "afmelden", "uitschrijven"],
    pl: ["wypisz", "zatrzymaj"],
  };
  const courtesies =
    "please|now|thank you|bitte|danke|s'il vous plaît|svp|por favor|gracias|per favore|obrigado|alstublieft|proszę|dziękuję";

  it("changes nothing about a STOP keyword of any language", () => {
    for (const keyword of Object.values(keywords).flat())
      for (const courtesy of courtesies.split("|"))
        for (const text of [`${keyword} ${courtesy}`, `${courtesy}, ${keyword.toUpperCase()}!`])
          expect(consentOf(text, words)?.word, text).toBe("stop");
  });

  it("and a repetition, a signature or a further sentence keep a STOP keyword of any language from the agent", () => {
    for (const keyword of Object.values(keywords).flat()) {
      for (const text of [`${keyword} ${keyword}`, `${keyword}! ${keyword}! ${keyword}!`, `${keyword}\n-John`])
        expect(consentOf(text, words), text).toEqual({
          word: "stop",
          confirmation: expect.stringContaining("START") as string,
        });
      for (const text of [`${keyword}. 12345 xyz`, `${keyword}\nxyz`, `${keyword}, xyz`, `xyz. ${keyword}`]) {
        expect(consentOf(text, words), text).toBeNull();
        expect(isDoubtful({ body: text }, words), text).toBe(true);
      }
    }
  });

  it("is answered with a confirmation in the language of the keyword", () => {
    expect(consentOf("Abmelden bitte", words)?.confirmation).toContain("Antworten Sie START");
    expect(consentOf("afmelden, dank u", words)?.confirmation).toContain("Antwoord START");
    expect(consentOf("stop bitte", words)?.confirmation).toContain("Reply START");
  });

  it("alone is an ordinary message", () => {
    for (const text of ["please", "Thank you!", "ok now"]) expect(consentOf(text, words), text).toBeNull();
  });
});
