// The requests that a test makes with fetch have a connection each. A kept connection may be closed by its server, idle while
// the test waits for a daemon, at the moment of the next request: "fetch failed, read ECONNRESET".

import { Agent, setGlobalDispatcher } from "undici";

setGlobalDispatcher(new Agent({ pipelining: 0 }));
