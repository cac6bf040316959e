// The text of dovecot.conf for one private instance (Dovecot 2.3).

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Certificate } from "../machine/certificate.ts";

interface Instance {
  readonly dir: string;
  readonly port: number;
  readonly tlsPort: number;
  readonly owner: { readonly uid: number; readonly gid: number; readonly name: string };
  readonly users: readonly string[];
  readonly ssl: Certificate | null;
  readonly introspectionUrl?: string;
  readonly extra?: string;
}

/** Also writes the files it refers to into `dir`. */
export function dovecotConfig(instance: Instance): string {
  const { dir, owner } = instance;
  mkdirSync(join(dir, "mail"), { recursive: true });
  writeFileSync(join(dir, "users"), instance.users.map((user) => `${user}:{PLAIN}secret\n`).join(""));
  const asUser = process.getuid?.() !== 0;
  return `
base_dir = ${dir}/run
state_dir = ${dir}/state
log_path = ${dir}/dovecot.log
protocols = imap
listen = 127.0.0.1
${asUser ? `default_internal_user = ${owner.name}\ndefault_login_user = ${owner.name}\n` : ""}
mail_location = maildir:${dir}/mail/%u
mail_uid = ${owner.uid}
mail_gid = ${owner.gid}
first_valid_uid = 1
mail_fsync = never
disable_plaintext_auth = no
auth_mechanisms = plain login${instance.introspectionUrl ? " xoauth2 oauthbearer" : ""}
auth_failure_delay = 0
auth_verbose = yes
imap_idle_notify_interval = 30s
mail_max_userip_connections = 1000
service anvil {
  chroot =
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
service imap-login {
  chroot =
  inet_listener imap {
    port = ${instance.port}
  }
  inet_listener imaps {
    port = ${instance.ssl ? instance.tlsPort : 0}
    ssl = yes
  }
}
${tls(instance)}
namespace inbox {
  inbox = yes
  separator = .
  mailbox Sent {
    auto = subscribe
    special_use = \\Sent
  }
}
${oauth2(instance)}
passdb {
  driver = passwd-file
  args = ${dir}/users
}
userdb {
  driver = static
  args = uid=${owner.uid} gid=${owner.gid} home=${dir}/mail/%u
}
${instance.extra ?? ""}
`;
}

function tls({ dir, ssl }: Instance): string {
  if (ssl === null) return "ssl = no\n";
  writeFileSync(join(dir, "cert.pem"), ssl.cert);
  writeFileSync(join(dir, "key.pem"), ssl.key, { mode: 0o600 });
  return `ssl = yes\nssl_cert = <${dir}/cert.pem\nssl_key = <${dir}/key.pem\n`;
}

function oauth2({ dir, introspectionUrl }: Instance): string {
  if (introspectionUrl === undefined) return "";
  const file = join(dir, "oauth2.conf.ext");
  writeFileSync(
    file,
    `introspection_url = ${introspectionUrl}
introspection_mode = post
username_attribute = username
active_attribute = active
active_value = true
use_grant_password = no
`,
  );
  return `passdb {\n  driver = oauth2\n  mechanisms = xoauth2 oauthbearer\n  args = ${file}\n}\n`;
}
