// A self-made certificate for 127.0.0.1, made once per process by the openssl command.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** PEM texts; `cert` is its own CA. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

let made: Certificate | null = null;

/** Needs the Debian package `openssl`. */
export function certificate(): Certificate {
  if (made !== null) return made;
  const dir = mkdtempSync(join(tmpdir(), "bridgehead-cert-"));
  const [key, cert] = [join(dir, "key.pem"), join(dir, "cert.pem")];
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "2",
    ].concat(
      ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
      ["-keyout", key, "-out", cert],
    ),
    { stdio: "ignore" },
  );
  made = { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  rmSync(dir, { recursive: true });
  return made;
}
