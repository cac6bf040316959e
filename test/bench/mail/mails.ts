// Generated emails with text and HTML parts, a quoted email and transport headers.

const sentence = "The parcel has been on its way for nine days now and the tracking page says nothing new. ";
const quote = "Dear customer, thank you for your order, which we have received and will send within two working days. ";

/** The Message-ID of email `n` of a run. */
export const mailId = (run: string, n: number): string => `<${run}.${n}@people.example.net>`;

/** The address of the author of email `n`. */
export const authorOf = (n: number): string => `ann.${n}@people.example.net`;

/** About 4 kB, with LF line ends; every email has another author. With `first` it answers that email of the run, and
 *  has its author. */
export function mail(run: string, n: number, first?: number): string {
  if (first !== undefined) {
    const parent = `In-Reply-To: ${mailId(run, first)}\nReferences: ${mailId(run, first)}\nMIME-Version:`;
    return mail(run, n).replaceAll(authorOf(n), authorOf(first)).replace("MIME-Version:", parent);
  }
  const boundary = `----=_Part_${run}_${n}`;
  const question = `Hello,\n\nwhere is my order number ${10_000 + n}?\n${sentence.repeat(3)}\n\nKind regards\nAnn Example`;
  const quoted = quote.repeat(4).match(/.{1,70}\s/g) ?? [];
  const written = "On Fri, 20 Nov 2026 at 09:12, Support <support@example.com> wrote:";
  return `Return-Path: <ann.${n}@people.example.net>
Received: from mx1.people.example.net (mx1.people.example.net [192.0.2.17])
 by mail.example.com (Postfix) with ESMTPS id 4F${n} for <support@example.com>;
 Sat, 21 Nov 2026 10:00:00 +0000 (UTC)
Received: by mx1.people.example.net with SMTP id ${n}x; Sat, 21 Nov 2026 09:59:58 +0000
DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=people.example.net; s=20260101;
 h=to:subject:message-id:date:from:mime-version:from:to:cc:subject:date;
 bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=${"dGhpcyBpcyBubyBzaWduYXR1cmU".repeat(8)}
MIME-Version: 1.0
From: =?UTF-8?Q?Ann_Ex=C3=A4mple?= <ann.${n}@people.example.net>
To: Support <support@example.com>
Subject: Where is order ${10_000 + n}?
Message-ID: ${mailId(run, n)}
Date: ${new Date().toUTCString().replace("GMT", "+0000")}
Content-Type: multipart/alternative; boundary="${boundary}"

--${boundary}
Content-Type: text/plain; charset="UTF-8"
Content-Transfer-Encoding: quoted-printable

${question}

${written}
${quoted.map((line) => `> ${line.trim()}`).join("\n")}

--${boundary}
Content-Type: text/html; charset="UTF-8"
Content-Transfer-Encoding: quoted-printable

<html><body><div dir=3D"ltr">${question.replaceAll("\n", "<br>\n")}</div><br>
<div class=3D"gmail_quote"><div dir=3D"ltr" class=3D"gmail_attr">${written}<br></div>
<blockquote class=3D"gmail_quote" style=3D"margin:0 0 0 .8ex;padding-left:1ex">
${quoted.map((line) => `<p>${line.trim()}</p>`).join("\n")}
</blockquote></div></body></html>
--${boundary}--
`;
}

const file = `${"QnJpZGdlaGVhZCBiZW5jaG1hcmsg".repeat(2).padEnd(76, "x")}\n`.repeat(312_000);

/** A question with a file, 24 MB. */
export const largeMail = (run: string, n: number): string => `MIME-Version: 1.0
From: Ann Example <${authorOf(n)}>
To: Support <support@example.com>
Subject: Photo of order ${n}
Message-ID: ${mailId(run, n)}
Date: ${new Date().toUTCString().replace("GMT", "+0000")}
Content-Type: multipart/mixed; boundary="----=_Large"

------=_Large
Content-Type: text/plain

What is wrong with order ${n}?

------=_Large
Content-Type: image/jpeg; name="photo.jpg"
Content-Disposition: attachment; filename="photo.jpg"
Content-Transfer-Encoding: base64

${file}
------=_Large--
`;
