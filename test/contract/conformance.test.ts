import { describeAdapter } from "bridgehead/contract/testing";
import lineAdapter from "./line-adapter.ts";
import { lineHarness } from "./line-peer.ts";

describeAdapter(lineAdapter, lineHarness);
