// Calls on SQLite: the daemon dies during a call, and the next process continues it.

import { deathsInCalls } from "../support/process/sms/calls.ts";

deathsInCalls();
