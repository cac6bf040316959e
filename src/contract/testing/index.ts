// bridgehead/contract/testing: the conformance suite for adapters, and helpers for their tests.

export * from "./channel.ts";
export * from "./checks/index.ts";
export * from "./clock.ts";
export * from "./describe.ts";
export * from "./files.ts";
export type { AdapterUnderTest, Check } from "./fixture.ts";
export * from "./harness.ts";
export { type Serving, serveTest, type TestSocket, testSocket } from "./socket.ts";
