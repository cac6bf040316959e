// A self-made certificate for 127.0.0.1, made once per process by the openssl command.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** PEM texts; `cert` is its own CA. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

const made = new Map<number, Certificate>();

/** Valid for `days`; a negative number gives one that has expired. Needs the Debian package `openssl`. */
export function certificate(days = 2): Certificate {
  const known = made.get(days);
  if (known !== undefined) return known;
  const dir = mkdtempSync(join(tmpdir(), "bridgehead-cert-"));
  const [key, cert, request] = [join(dir, "key.pem"), join(dir, "cert.pem"), join(dir, "request.pem")];
  const names = join(dir, "names.cnf");
  writeFileSync(names, "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
  const openssl = (...args: string[]) => execFileSync("openssl", args, { stdio: "ignore" });
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl("req", ...curve, "-subj", "/CN=localhost", "-keyout", key, "-out", request);
  // `req -x509` would refuse a validity that has ended.
  const signed = ["-signkey", key, "-days", String(days), "-extfile", names, "-out", cert];
  openssl("x509", "-req", "-in", request, ...signed);
  const pair = { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  made.set(days, pair);
  rmSync(dir, { recursive: true });
  return pair;
}
