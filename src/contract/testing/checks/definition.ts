// Rules of the parts of a definition that the core calls where no channel exists: traits, `review`, `exclusive`, `address`.

import assert from "node:assert/strict";
import * as z from "zod";
import { type ExclusiveResource, type Remark, type Surroundings, wrongTraits } from "../../index.ts";
import { type Check, check, type Fixture } from "../fixture.ts";
import { secretsOf } from "./remains.ts";

const isText = (value: unknown): boolean => typeof value === "string" && value.trim() !== "";

async function hasTraits({ definition: { name, traits } }: Fixture): Promise<void> {
  assert.ok(isText(name), "the definition has no name");
  const wrong = wrongTraits(traits).map(
    ({ trait, given, form }) => `traits.${trait} is ${String(given)}: write ${form}`,
  );
  assert.deepEqual(wrong, [], wrong.join("; "));
  const { defaults } = traits;
  const stored: unknown = JSON.parse(JSON.stringify(defaults ?? {}));
  assert.deepEqual(stored, defaults ?? {}, 'traits.defaults are not written as in the file: use texts such as "3s"');
}

/** The places from which a configuration is reviewed: with and without an address for providers, and in a test. */
const places: readonly Surroundings[] = [
  { publicUrl: null, trial: false },
  { publicUrl: null, trial: true },
  { publicUrl: new URL("https://bridge.example"), trial: false },
];

/** Reports what is wrong with a remark, or null. */
function flawOf({ severity, path, message, fix }: Remark, known: ReadonlySet<string>): string | null {
  const what = `the remark ${JSON.stringify(message)}`;
  if (severity !== "error" && severity !== "warning") return `${what} has the severity ${String(severity)}`;
  if (!isText(message) || !isText(fix)) return `${what} lacks its message or its fix`;
  const [first = ""] = path;
  if (first === ".." || path.length === 0 || known.has(String(first))) return null;
  return `${what} is about ${JSON.stringify(path)}, which is no key of the block: begin with a key of it, or with ".."`;
}

async function reviews({ definition, peer }: Fixture): Promise<void> {
  if (definition.review === undefined) return;
  const known = keysOf(definition.config);
  for (const place of places) {
    const remarks = async (): Promise<readonly Remark[]> =>
      definition.review?.(await definition.config.parseAsync(peer.config("right")), place) ?? [];
    const found = await remarks();
    assert.deepEqual(await remarks(), found, "review made two things of one block");
    const flaws = found.map((one) => flawOf(one, known)).filter((flaw) => flaw !== null);
    assert.deepEqual(flaws, [], flaws.join("; "));
    const errors = place.publicUrl === null ? [] : found.filter(({ severity }) => severity === "error");
    assert.deepEqual(
      errors,
      [],
      `review rejects the harness's own block: ${errors.map(({ message }) => message).join()}`,
    );
  }
}

async function namesResources({ definition, peer }: Fixture): Promise<void> {
  if (definition.exclusive === undefined) return;
  const known = keysOf(definition.config);
  const resources = async (): Promise<readonly ExclusiveResource[]> =>
    definition.exclusive?.(await definition.config.parseAsync(peer.config("right"))) ?? [];
  const found = await resources();
  assert.deepEqual(await resources(), found, "exclusive named two resources for one block");
  for (const { id, name, key } of found) {
    assert.ok(isText(id) && isText(name), `an exclusive resource without id or name: ${JSON.stringify({ id, name })}`);
    const isKey = known.has(String(key[0]));
    assert.ok(isKey, `exclusive names the key ${JSON.stringify(key)}, which is no key of the block`);
  }
  const secret = secretsOf(peer.config("right"), peer.config("wrong")).find((one) =>
    JSON.stringify(found).includes(one),
  );
  assert.equal(secret, undefined, "exclusive names a secret: error messages print it; use a digest");
}

/** Addresses that people type: the adapter must recognize those that it can reach, and no other. */
async function knowsAddresses({ definition, peer }: Fixture): Promise<void> {
  if (definition.address === undefined) return;
  const address = (text: string): string | null => definition.address?.(text) ?? null;
  for (const { address: written } of peer.reply?.to ?? []) {
    const canonical = address(written);
    assert.ok(canonical !== null, `address() does not know ${written}, to which the harness sends`);
    const again = address(canonical);
    assert.equal(again, canonical, `address() made ${canonical} of ${written}, and ${again} of that`);
    const typed = address(` ${written} `);
    assert.equal(typed, canonical, `address() made ${typed} of "${written}" between spaces: trim what people type`);
  }
  for (const text of ["", " ", "\u0000", "x".repeat(10_000)]) {
    const given = address(text);
    const isForm = given === null || isText(given);
    assert.ok(isForm, `address() made ${JSON.stringify(given)} of ${JSON.stringify(text.slice(0, 10))}: return null`);
  }
}

interface KeyShape {
  readonly secret?: boolean;
  readonly properties?: Readonly<Record<string, KeyShape>>;
  readonly additionalProperties?: KeyShape | boolean;
  readonly items?: KeyShape | boolean;
  readonly prefixItems?: readonly KeyShape[];
  readonly anyOf?: readonly KeyShape[];
  readonly oneOf?: readonly KeyShape[];
  readonly allOf?: readonly KeyShape[];
}

/** The schema of the block as JSON Schema, with the metadata of its keys. */
const shapeOf = (config: z.ZodType): KeyShape =>
  z.toJSONSchema(config, { io: "input", unrepresentable: "any", reused: "inline" }) as KeyShape;

const keysOf = (config: z.ZodType): ReadonlySet<string> => new Set(Object.keys(shapeOf(config).properties ?? {}));

const alternatives = (shape: KeyShape): readonly KeyShape[] => [
  shape,
  ...[shape.anyOf, shape.oneOf, shape.allOf].flatMap((some) => (some ?? []).flatMap(alternatives)),
];

const below = (shape: KeyShape, key: string): readonly KeyShape[] => {
  const { properties, additionalProperties: more, items, prefixItems } = shape;
  return [properties?.[key], prefixItems?.[Number(key)], more, items]
    .filter((one): one is KeyShape => typeof one === "object")
    .slice(0, 1);
};

/** The dotted paths of the texts in which the credentials differ and that the schema does not mark as secret. */
function unmarked(right: unknown, wrong: unknown, shapes: readonly KeyShape[], path = ""): readonly string[] {
  const known = shapes.flatMap(alternatives);
  if (known.some(({ secret }) => secret === true)) return [];
  if (typeof right === "string") return right === wrong || known.length === 0 ? [] : [path];
  if (right === null || typeof right !== "object" || wrong === null || typeof wrong !== "object") return [];
  return Object.entries(right).flatMap(([key, value]) =>
    unmarked(
      value,
      (wrong as Record<string, unknown>)[key],
      known.flatMap((shape) => below(shape, key)),
      path === "" ? key : `${path}.${key}`,
    ),
  );
}

async function marksSecrets({ definition, peer }: Fixture): Promise<void> {
  const paths = unmarked(peer.config("right"), peer.config("wrong"), [shapeOf(definition.config)]);
  const fix = "add .meta({ secret: true }), so that check rejects it as plain text and support bundles omit it";
  assert.deepEqual(paths, [], `a credential is not marked as secret: ${paths.join(", ")}: ${fix}`);
}

export const definitionChecks: readonly Check[] = [
  check("definition: has traits that the core knows", [], hasTraits),
  check("definition: review names keys and remedies, and takes the harness's block", [], reviews),
  check("definition: exclusive names keys, and no secret", [], namesResources),
  check("definition: address knows what the channel reaches, and keeps its own form", [], knowsAddresses),
  check("config: credentials are marked as secret", ["credentials"], marksSecrets),
];
