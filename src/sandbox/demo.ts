// Content of the demo: agent definition, configuration and first messages.

export const support = "support@demo.example";
export const customer = "anna@customer.example";
/** The responder: a colleague whom the daemon notifies when the agent hands over. */
export const responder = "ben@lumen.example";

/** Fictitious phone numbers, and the account of the agent's number. */
export const numbers = { support: "+12025550100", customer: "+12025550123" };
export const account = "AC00000000000000000000000000000000";

/** API key of the demo's agent; valid nowhere else. */
export const demoKey = "00000000-0000-4000-8000-000000000001";

export const firstMail = {
  subject: "Where is my parcel?",
  text: "Hello,\n\nI ordered a lamp last week. How long does delivery take?\n\nAnna",
};

export const agentsFile = `
organization: { name: Demo, key: demo-organization-key }
agents:
  support:
    public_name: Lumen Support
    key: ${demoKey}
    skills:
      email:
        email: ${support}
        senderName: Lumen Support
        emailSignature: "Lumen Lamps\\nwww.lumen.example"
        responseDelaySeconds: 0
      sms:
        phoneNumber: "${numbers.support}"
        smsSignature: "Lumen Lamps"
        responseDelaySeconds: 0
      voice: { status: active }
      escalation:
        escalations:
          - topic: complaint
            escalationPrompt: "complain|unacceptable|money back"
            autoChangeConversationMode: true
            response: I understand. A colleague will write to you today.
            recipients: []
    rules:
      - { when: "human|person", answer: "You can write to a colleague: say that you have a complaint." }
      - { when: "thanks|thank you", answer: "You are welcome!" }
    knowledge:
      - { title: Delivery, text: "Delivery takes two to four working days. Every parcel has a tracking number, which is in the mail we send on the day it leaves." }
      - { title: Returns, text: "Lamps can be returned within 30 days. The refund is paid within five working days after the parcel has arrived." }
      - { title: Bulbs, text: "All lamps take E27 bulbs of at most 40 watts. LED bulbs fit as well." }
    default_answer: "I do not know that. I have noted your question for a colleague."
`;

/** Returns the demo's configuration, small and as an operator would write it. */
export function configFile(where: {
  platformUrl: string;
  imapPort: number;
  smtpPort: number;
  smsUrl: string;
  folder: string;
}): string {
  return `
platform: { url: "${where.platformUrl}" }
agents:
  support: { key: "\${env:DEMO_KEY}" }
channels:
  support-mail:
    adapter: email
    agent: support
    imap: { host: 127.0.0.1, port: ${where.imapPort}, tls: none, user: ${support}, password: "\${env:DEMO_PASSWORD}" }
    smtp: { host: 127.0.0.1, port: ${where.smtpPort}, tls: none, user: ${support}, password: "\${env:DEMO_PASSWORD}" }
    first_start: { history: 1h }
  support-sms:
    adapter: sms
    agent: support
    provider: twilio
    account_sid: ${account}
    auth_tokens: ["\${env:DEMO_PASSWORD}"]
    number: "${numbers.support}"
    api_url: ${where.smsUrl}
    debounce: 500ms
  support-voice:
    adapter: voice
    agent: support
    dialect: twilio
    auth_tokens: ["\${env:DEMO_PASSWORD}"]
    greeting: Lumen Lamps, hello! How can I help you?
http: { listen: "127.0.0.1:0" }
store: "sqlite:${where.folder}/bridgehead.db"
`;
}

/** Escalation policy that the demo adds to its configuration. */
export const policyBlock = `
escalation:
  responders: { ben: { name: Ben, email: ${responder} } }
  fallback: { notify: [ ben ] }
  group: 0s
`;
