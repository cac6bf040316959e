// TLS in the URL of a PostgreSQL store, against a server that has none.

import { createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { parseStore } from "../../../src/config/index.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { listen } from "../../support/machine/network.ts";

it.each(["prefer", "require", "verify-ca", "verify-full"])(
  "sslmode=%s requires TLS, and the driver prints no warning",
  async (mode) => {
    const warnings: string[] = [];
    const note = ({ message }: Error) => void warnings.push(message);
    process.on("warning", note);
    onTestFinished(() => void process.off("warning", note));
    const plain = createServer((socket) => void socket.once("data", () => socket.end("N")));
    const { host } = new URL(await listen(plain));
    onTestFinished(() => void plain.close());
    const store = parseStore(`postgres://test@${host}/test?sslmode=${mode}`, "/", {});
    if (!("url" in store)) throw new Error(JSON.stringify(store));
    await expect(openPostgres(store.url)).rejects.toThrow("does not support SSL");
    expect(warnings).toEqual([]);
  },
);
