// Types of the parts of the description that the page reads; openapi.ts generates them.

export interface Description {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: { readonly [path: string]: { readonly [method: string]: DescribedOperation } };
  readonly webhooks: { readonly delivery: { readonly post: DescribedOperation } };
  readonly components: { readonly schemas: Schemas };
}

export type Schemas = { readonly [name: string]: Schema };

export interface DescribedOperation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly security: readonly { readonly [key: string]: readonly [] }[];
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: { readonly [type: string]: Media } };
  readonly responses: { readonly [status: string]: Answer };
}

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description: string;
  readonly schema: Schema;
  readonly example?: string;
}

export interface Media {
  readonly schema: Schema;
  readonly example?: unknown;
  readonly examples?: { readonly [name: string]: { readonly summary: string; readonly value: unknown } };
}

export interface Answer {
  readonly description: string;
  readonly content?: { readonly [type: string]: Media };
}

export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Schemas;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly enum?: readonly string[];
  readonly const?: string;
  readonly format?: string;
  readonly description?: string;
  readonly default?: string | number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly examples?: readonly unknown[];
}
