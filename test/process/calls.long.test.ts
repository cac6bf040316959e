// Calls on PostgreSQL: the daemon dies during a call, and the next process continues it.

import { deathsInCalls } from "../support/process/sms/calls.ts";
import { describePostgres } from "../support/store/postgres.ts";

await describePostgres("calls on PostgreSQL", deathsInCalls);
