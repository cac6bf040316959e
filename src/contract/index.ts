// bridgehead/contract: the complete public interface for adapters.

export * from "./channel.ts";
export * from "./contract.ts";
export * from "./define.ts";
export * from "./events.ts";
export * from "./http.ts";
export * from "./ids.ts";
export * from "./markdown.ts";
export * from "./outcomes.ts";
export * from "./routes.ts";
export * from "./signatures.ts";
export * from "./units.ts";
export * from "./wrong-fields.ts";
