// Describes the webhook deliveries of the platform, for the OpenAPI description and the page.

import { recordExamples } from "./examples.ts";
import type { Json } from "./schemas.ts";

const header = (name: string, description: string, example: string): Json => ({
  name,
  in: "header",
  required: true,
  description,
  schema: { type: "string" },
  example,
});

/** Returns the `webhooks` part of the description, for receivers. `body` is a reference to the record. */
export function describeDeliveries(body: Json): Json {
  return {
    delivery: {
      post: {
        operationId: "receiveDelivery",
        summary: "What a webhook of yours receives",
        description:
          "Sent after what it tells of is stored. Tried again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h and 20 h until it is answered with a 2xx within 15 s. A delivery may arrive twice, with the same `webhook-id`. Signed by Standard Webhooks: HMAC-SHA256, with the secret that the registration told, over `id.timestamp.body`.",
        tags: ["webhooks"],
        security: [],
        parameters: [
          header(
            "webhook-id",
            "The delivery; the same at every try.",
            "019cadf2-3d56-7b77-8eb4-4c9f7e8d0a08",
          ),
          header("webhook-timestamp", "When it was tried, in seconds since 1970.", "1772443872"),
          header(
            "webhook-signature",
            "One or more of `v1,` and the signature in base64, with spaces between them.",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
          ),
        ],
        requestBody: {
          required: true,
          content: { "application/json": { schema: body, example: recordExamples["WebhookDelivery"] } },
        },
        responses: {
          "2XX": { description: "Taken" },
          "410": { description: "Gone: it is not tried again" },
          default: { description: "Tried again later" },
        },
      },
    },
  };
}

/** Sample code that verifies a delivery's signature in a Node receiver. Shown on the page, and run by a
 *  test. */
export const verifying = `import { createHmac, timingSafeEqual } from "node:crypto";

// headers: in lower case. body: as it came, not parsed. secret: whsec_...
export function isOurs(headers, body, secret, now = Date.now()) {
  const { "webhook-id": id, "webhook-timestamp": time } = headers;
  if (!(Math.abs(now / 1000 - Number(time)) < 300)) return false;
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const right = createHmac("sha256", key).update(\`\${id}.\${time}.\${body}\`).digest();
  return String(headers["webhook-signature"]).split(" ").some((each) => {
    const [version, signature = ""] = each.split(",");
    const given = Buffer.from(signature, "base64");
    return version === "v1" && given.length === right.length && timingSafeEqual(given, right);
  });
}
`;
