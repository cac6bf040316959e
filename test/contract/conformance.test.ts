import { describeAdapter } from "bridgehead/contract/testing";
import callAdapter, { callHarness } from "./call-adapter.ts";
import hookAdapter, { hookHarness } from "./hook-adapter.ts";
import lineAdapter from "./line-adapter.ts";
import { lineHarness } from "./line-peer.ts";

describeAdapter(lineAdapter, lineHarness);
describeAdapter(hookAdapter, hookHarness);
describeAdapter(callAdapter, callHarness);
