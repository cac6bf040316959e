// Where webhooks may go: every way to write, wrap or move an address that is not on the internet.

import { describe, expect, test } from "vitest";
import { type Allowed, isAllowed, isPublic, judge, type Resolve } from "../../src/ops/address.ts";

const at =
  (...addresses: string[]): Resolve =>
  async () =>
    addresses.map((address) => ({ address }));
const nowhere: Resolve = async () => {
  throw new Error("ENOTFOUND");
};
const open = "93.184.216.34";

/** A name must not even be asked for: what is refused here is refused by how it is written. */
const neverAsked: Resolve = async (host) => {
  throw new Error(`${host} was looked up`);
};

describe("refused by how it is written", () => {
  test.each([
    // IPv4 in any notation
    "https://127.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://127.0.0.1./",
    "https://127.255.255.254/",
    "https://0/",
    "https://0.0.0.0/",
    "https://0.0.0.0:8443/",
    "https://10.0.0.1/",
    "https://10.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://3232235777/",
    "https://100.64.0.1/",
    "https://100.100.100.200/",
    "https://169.254.169.254/latest/meta-data/",
    "https://169.254.43518/",
    "https://2852039166/",
    "https://0xa9fea9fe/",
    "https://0251.0376.0251.0376/",
    "https://168.63.129.16/",
    "https://192.0.0.192/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
    "https://198.51.100.1/",
    "https://203.0.113.1/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    // IPv6, and IPv4 wrapped into it
    "https://[::]/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::127.0.0.1]/",
    "https://[::7f00:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::a00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:a9fe:a9fe::1]/",
    "https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "https://[2001:db8::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[fec0::1]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[fd20:ce::254]/",
    "https://[ff02::1]/",
    "https://[100::1]/",
    "https://[5f00::1]/",
    // names of this machine, and letters that become digits
    "https://localhost/",
    "https://LOCALHOST/",
    "https://localhost./",
    "https://localhost:443/",
    "https://hooks.localhost/",
    "https://hooks.localhost./",
    "https://①②⑦.⓪.⓪.①/",
    "https://１２７.０.０.１/",
    "https://127。0。0。1/",
    "https://ｌｏｃａｌｈｏｓｔ/",
    "https://%31%32%37.0.0.1/",
    "https://loc%61lhost/",
    "https://127.0.0.1%2f@hooks.example/",
    // who is meant?
    "https://hooks.example@127.0.0.1/",
    "https://hooks.example:443@127.0.0.1/",
    "https://user:password@hooks.example/",
    "https://@hooks.example/",
    "https://:@hooks.example/",
    "https://127.0.0.1\\@hooks.example/",
    "https:\\\\127.0.0.1\\",
    "https:/\\127.0.0.1/",
    "https://hooks.example\\.internal/",
    "https:///127.0.0.1/",
    "https:////127.0.0.1/",
    "https:/127.0.0.1/",
    "https:127.0.0.1",
    "https:///hooks.example/",
    // no URL, or more than one line of it
    "https:///",
    "https://",
    "https://?",
    "//127.0.0.1/",
    "//hooks.example/",
    "hooks.example",
    "",
    " https://hooks.example/",
    "https://hooks.example/ HTTP/1.1",
    "https://hooks.example/\r\nX-Admin: yes",
    "https://hooks.example\r\n.127.0.0.1/",
    "https://hooks\t.example/",
    "https://hooks.example/\u0000",
    "https://hooks.example/\u2028",
    "https://hooks.example:99999/",
    `https://hooks.example/${"a".repeat(3000)}`,
    // other schemes
    "http://hooks.example/",
    "HTTP://127.0.0.1/",
    "ftp://hooks.example/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "data:application/json,{}",
    "javascript:alert(1)",
    "ws://hooks.example/",
    "unix:/var/run/docker.sock",
    "blob:https://hooks.example/1",
  ])("%j", async (url) => {
    const judged = await judge(url, [], { resolve: neverAsked });
    expect(judged).toMatchObject({ ok: false, unresolved: false });
  });
});

describe("refused by what the name stands for", () => {
  test.each([
    ["127.0.0.1"],
    ["10.0.0.1"],
    ["169.254.169.254"],
    ["fd00:ec2::254"],
    ["::1"],
    ["::ffff:10.0.0.1"],
    ["64:ff9b::a00:1"],
    ["fe80::1%eth0"],
    ["0.0.0.0"],
    [open, "10.0.0.1"],
    ["10.0.0.1", open],
    [open, "2606:2800:220:1:248:1893:25c8:1946", "::1"],
    ["no address at all"],
  ])("%s %s", async (...addresses) => {
    const judged = await judge("https://hooks.example/", [], { resolve: at(...addresses) });
    expect(judged).toMatchObject({
      ok: false,
      unresolved: false,
      reason: expect.stringContaining("public"),
    });
  });

  test("a name without an address and an unknown name may resolve later", async () => {
    for (const resolve of [at(), nowhere])
      expect(await judge("https://hooks.example/", [], { resolve })).toMatchObject({
        ok: false,
        unresolved: true,
      });
  });

  test("a resolver that is silent is not waited for", async () => {
    const resolve: Resolve = () => new Promise(() => undefined);
    const judged = judge("https://hooks.example/", [], { resolve, signal: AbortSignal.abort() });
    expect(await judged).toMatchObject({ ok: false, unresolved: true });
  });
});

test("the addresses that were judged are those to connect to, and the name is asked for once", async () => {
  const asked: string[] = [];
  // A second lookup resolves to an internal address.
  const resolve: Resolve = async (host) => (asked.push(host) === 1 ? [{ address: open }] : [{ address: "127.0.0.1" }]);
  const judged = await judge("https://Hooks.Example.:8443/path?query", [], { resolve });
  expect(judged).toMatchObject({ ok: true, destination: { addresses: [{ address: open, family: 4 }] } });
  expect(judged.ok && judged.destination.url.href).toBe("https://hooks.example.:8443/path?query");
  expect(asked).toEqual(["hooks.example"]);
});

describe("allowed", () => {
  const lan = ["10.0.0.0/8", "fd00::/8", "pager.internal", "127.0.0.1", "localhost"];
  test.each<[string, Allowed, string[], boolean]>([
    ["http://10.1.2.3/", lan, [], true],
    ["http://127.0.0.1:8080/", lan, [], true],
    ["http://2130706433/", lan, [], true],
    ["http://[::ffff:10.1.2.3]/", lan, [], true],
    ["http://[fd12::1]/", lan, [], true],
    ["http://localhost:9/", lan, ["127.0.0.1"], true],
    ["http://pager.internal/", lan, ["192.168.7.7"], true],
    ["https://PAGER.internal./", lan, ["192.168.7.7"], true],
    ["https://other.internal/", lan, ["10.1.2.3"], true],
    ["http://other.internal/", lan, ["10.1.2.3"], true],
    ["https://hooks.example/", lan, [open, "10.1.2.3"], true],
    ["http://127.0.0.2/", lan, [], false],
    ["http://11.0.0.1/", lan, [], false],
    ["http://hooks.example/", lan, [open], false],
    ["http://hooks.example/", lan, [open, "10.1.2.3"], false],
    ["https://other.internal/", lan, ["192.168.7.7"], false],
    ["https://other.internal/", lan, ["10.1.2.3", "192.168.7.7"], false],
    ["https://pager.internal.example/", lan, ["192.168.7.7"], false],
    ["https://my.pager.internal/", lan, ["192.168.7.7"], false],
    ["https://sub.localhost/", lan, ["127.0.0.1"], false],
    ["http://user@10.1.2.3/", lan, [], false],
    ["ftp://10.1.2.3/", lan, [], false],
    ["http://192.168.7.7/", "everything", [], true],
    ["http://anything.internal/", "everything", ["127.0.0.1"], true],
    ["file:///etc/passwd", "everything", [], false],
  ])("%s of %j at %j: %s", async (url, allowed, addresses, ok) => {
    expect(await judge(url, allowed, { resolve: at(...addresses) })).toMatchObject({ ok });
  });

  test("what is no range allows nothing", () => {
    for (const entry of ["10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/x", "/8", "", "300.1.1.1/8"])
      expect(isAllowed("10.0.0.1", [entry])).toBe(false);
    expect(isAllowed("10.0.0.1", ["10.0.0.0/8"])).toBe(true);
  });
});

test.each(["93.184.216.34", "8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"])(
  "%s is on the internet",
  (address) => expect(isPublic(address)).toBe(true),
);
