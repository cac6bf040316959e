// The guide for developers of clients: first calls, keys, errors, limits, lists, webhooks.

import { html } from "hono/html";
import { triggers } from "../../wire/webhook.ts";
import { verifying } from "./openapi.ts";
import { type Description, type Html, jsonView, prose } from "./views.ts";

/** The sections of the guide, with their titles in the table of contents. */
export const guideSections: { readonly [id: string]: string } = {
  begin: "First calls",
  keys: "Keys",
  errors: "Errors",
  limits: "Limits",
  lists: "Lists",
  deliveries: "Webhooks: what you receive",
};

const triggerWords: { readonly [trigger in (typeof triggers)[number]]: string } = {
  each_message: "once for every turn: with the agent's answer, or at once when none will come by itself",
  start_dialog: "a conversation has begun",
  end_dialog:
    "nobody has said anything for six minutes; the `score` is there by then, where the agent scores",
  chat_currently_unavailable: "somebody wrote to an agent that is not active",
  auto_archive_conversation: "nobody has said anything for thirty days",
  manual: "only by hand (`fireWebhook`)",
};

export function guide({ paths, webhooks, components }: Description): Html {
  return html`${begin} ${keys} ${errors(paths)} ${limits} ${lists} ${deliveries(webhooks, components.schemas)}`;
}

const origin = html`<span class="origin">https://platform.example.com</span>`;
const code = (label: string, text: Html): Html =>
  html`<pre tabindex="0" role="region" aria-label="${label}">${text}</pre>`;
/** Renders a curl call with the agent's key. A body makes it a POST. */
const curl = (label: string, path: string, body = ""): Html => html`<pre
  class="shell"
  tabindex="0"
  role="region"
  aria-label="${label}"
>curl ${origin}${path} \\
  -H "Agent-Secret-Key: $AGENT_KEY"${
    body === ""
      ? ""
      : html` \\
  -H "content-type: application/json" \\
  -d '${body}'`
  }</pre>`;
const firstStart = `{"channel":"email","firstName":"Anna","lastName":"Berg","email":"anna@example.com",
       "emailSubject":"Hello","emailIntroduction":"Hello"}`;

const begin = html`<section id="begin">
  <h2>First calls</h2>
  <ol>
    <li>
      Is the key right, and whose is it? ${curl("Asking for the agent", "/external/agents/by-api-key")}
    </li>
    <li>
      Begin a conversation; the answer is its <code>conversationId</code>.
      ${curl("Starting a conversation", "/external/conversations/start", firstStart)}
    </li>
    <li>
      Say what the person says; the answer is the agent's.
      ${curl("Sending a message", "/external/conversations/$CONVERSATION/messages", '{"message":"Where is my order?"}')}
    </li>
    <li>
      Follow what happens by <a href="#listMessages">reading the messages</a>, or let a
      <a href="#registerWebhook">webhook</a> tell you.
    </li>
    <li>
      Teach the agent: <a href="#uploadFile">upload a document</a>, then
      <a href="#addFileToAssistant">make it searchable</a>.
    </li>
  </ol>
</section>`;

const keys = html`<section id="keys">
  <h2>Keys</h2>
  <p>
    Every call carries one of two headers. <code>Agent-Secret-Key</code> opens one agent, and names it: no path says
    which. <code>Organization-Secret-Key</code> opens the two lists with an agent's id in their path, for every agent
    of the organization. A new key ends the old one at once. A key that opens nothing, and one that is missing, is a
    403. Keep keys on your server: whoever reads one in a page or an app can use it.
  </p>
</section>`;

function errors(paths: Description["paths"]): Html {
  const answers = Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .flatMap(({ responses }) => Object.entries(responses))
    .filter(([status]) => !status.startsWith("2"));
  return html`<section id="errors">
    <h2>Errors</h2>
    <p>
      An error's body is JSON, and the words in <code>name</code> and <code>message</code> do not change.
      <code>details</code> names the fields of a 400 by their paths. Text that is no JSON, and a value of the wrong
      type, is a 400; a thing of another agent is a 404, like one that never was.
    </p>
    ${[...new Map(answers)]
      .toSorted(([a], [b]) => Number(a) - Number(b))
      .map(
        ([status, { description, content }]) =>
          html`<details class="status">
            <summary><strong class="bad">${status}</strong> ${prose(description)}</summary>
            ${jsonView(content?.["application/json"]?.example, `Body of a ${status}`)}
          </details>`,
      )}
    <p>
      Reads may be repeated. A message whose answer never came may have been taken: look at the conversation's messages
      before you send it again, for nothing tells two equal ones apart.
    </p>
  </section>`;
}

const limits = html`<section id="limits">
  <h2>Limits</h2>
  <ul>
    <li>
      1000 requests in any 60 seconds for an organization, all its agents together. Beyond it: 429, and
      <code>Retry-After</code> says how many seconds to wait. What a wrong key asks is not counted.
    </li>
    <li>A body of 2 MiB; a document, or a file of a message, of 20 MiB.</li>
    <li>A conversation's title of 255 characters, its context of 256,000.</li>
    <li>1000 documents and 100 webhooks for an agent, 10 files for a message.</li>
  </ul>
</section>`;

const lists = html`<section id="lists">
  <h2>Lists</h2>
  <p>
    A list comes in pages: <code>data</code> holds the items, <code>hasNextPage</code> says whether to ask for the next
    <code>page</code>. Pages are counted from 1, with 20 items unless <code>pageSize</code> says otherwise, and 100 at most.
    What comes to a list while you read it moves the rest: oldest first (<code>orderDirection=ASC</code>) no page
    changes behind you.
  </p>
</section>`;

function deliveries(webhooks: Description["webhooks"], schemas: Description["components"]["schemas"]): Html {
  const { description = "", parameters } = webhooks.delivery.post;
  return html`<section id="deliveries">
    <h2>Webhooks: what you receive</h2>
    <p>
      A <a href="#registerWebhook">registered</a> webhook is sent a <code>POST</code> with JSON when its
      <code>triggerCondition</code> comes true:
    </p>
    <dl class="fields">
      ${triggers.map(
        (trigger) =>
          html`<div>
            <dt><code>${trigger}</code></dt>
            <dd>${prose(triggerWords[trigger])}</dd>
          </div>`,
      )}
    </dl>
    <p>${prose(description)}</p>
    <h3>Headers</h3>
    <p>Your own <code>headers</code>, and these:</p>
    <dl class="fields">
      ${parameters.map(
        ({ name, description: words, example }) =>
          html`<div>
            <dt><code>${name}</code></dt>
            <dd>${prose(words)} <code class="long">${example}</code></dd>
          </div>`,
      )}
    </dl>
    <h3>Body</h3>
    <p>The record <a href="#record-WebhookDelivery">WebhookDelivery</a>, for example</p>
    ${jsonView(schemas["WebhookDelivery"]?.examples?.[0], "Example of a delivery")}
    <h3>Is it ours?</h3>
    <p>
      Every library for Standard Webhooks tells, and so do these lines for Node. The secret is in the answer to the
      registration, and only there. Check the body as it came: JSON that was parsed and written again is another text.
    </p>
    ${code("Checking a signature", html`${verifying}`)}
    <p>
      What went wrong is in the <a href="#listDeliveries">log</a>; <a href="#resendDelivery">send it again</a> from
      there.
    </p>
  </section>`;
}
