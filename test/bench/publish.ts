// Writes the figures of a run as Markdown, and an SVG chart.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { basename, dirname } from "node:path";
import { chartOf } from "./chart.ts";
import { goalLines, type Line, type Section, sections, type Table } from "./report.ts";
import { parallel } from "./subject.ts";

/** The machine of a run, as printed at its start. */
export interface Machine {
  readonly node: string;
  readonly processors: number;
  /** Load average of the last minute. */
  readonly load: number;
  /** Median time of one fdatasync, in milliseconds. */
  readonly syncMs: number;
}

/** Called by `run.ts` with --report. Writes `file` and a chart with the extension .svg. */
export function publish(file: string, machine: Machine, command: string): void {
  const chart = file.replace(/\.md$/, "").concat(".svg");
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(chart, chartOf(goalLines()));
  writeFileSync(file, markdown(machine, command, basename(chart)));
  process.stdout.write(`\nwritten: ${file}, ${chart}\n`);
}

function markdown(machine: Machine, command: string, chart: string): string {
  const goals = goalLines();
  const missed = goals.filter(({ verdict }) => verdict === "MISSED");
  const minutes = sections.reduce((all, { seconds }) => all + seconds, 0) / 60;
  return `# Benchmarks

\`${command}\` has generated this page on ${new Date().toISOString().slice(0, 10)}. Run the command again instead of editing the page.

| | |
| --- | --- |
| processors | ${machine.processors} (${cpus()[0]?.model.trim() ?? "unknown"}) |
| memory | ${(totalmem() / 2 ** 30).toFixed(0)} GiB |
| system | Linux ${readFileSync("/proc/sys/kernel/osrelease", "utf8").trim()}, Node ${machine.node} |
| one write of 4 kB with fdatasync | ${machine.syncMs.toFixed(2)} ms |
| load average at the start | ${machine.load.toFixed(1)} |
| duration | ${minutes.toFixed(0)} minutes |

Absolute figures depend on the machine; ratios are comparable. The daemon and its baseline run in turns on the same
machine. The daemon has the environment of the shipped unit (\`systemd/bridgehead.service\`), which limits V8's young
generation, V8's threads and the arenas of malloc. Baselines have the defaults of Node.js, except that of the start. The
store is SQLite on that disk, and every message is durable before it is acknowledged. Agent platform, SMTP server and SMS
provider are stubs in another process that answer at once. A lost message or a second reply fails the run.

## Baselines

Every baseline stores nothing unless the list says so: a crash loses messages, or repeats them.

- **Email**: \`test/bench/mail/bare.ts\` reads the mailbox with imapflow, parses with postal-mime, asks the platform with
  undici and replies with nodemailer. It has the daemon's parallelism: ${parallel.conversations} conversations and ${parallel.connections} SMTP connections.
- **Start**: \`test/bench/mail/bare-start.ts\` loads the packages that the daemon's main thread was seen to load, with a
  compile cache and the environment of the shipped unit, and answers one email over the same kinds of connections.
- **SMS and calls**: \`test/bench/phone/bare.ts\` checks the signature of each webhook with node:crypto, answers it,
  and relays texts and turns with node:http, undici and ws.
- **Embedded platform**: \`test/bench/platform/bare.ts\` answers prepared bytes with node:http. For a POST it commits
  one row with the same durability.
- **PostgreSQL**: the same daemon with SQLite, and one node instead of several.
- **Large stores**: the same code with a store that is empty or small.

## Goals

${goals.length - missed.length} of ${goals.length} goals are met.${missed.length > 0 ? ` Missed:\n\n${linesTable(missed)}` : ""}

The chart shows how much of each limit is used. A bar that crosses the line misses its goal.

![Used part of each limit](${chart})

${sections
  .filter(({ lines, tables }) => lines.length + tables.length > 0)
  .map(sectionText)
  .join("\n\n")}
`;
}

/** A title is "name: description". */
function sectionText({ title, lines, tables, seconds }: Section): string {
  const [name = "", ...description] = title.split(": ");
  const about = description.join(": ");
  return [
    `## ${capitalized(name)}`,
    `${capitalized(about)}.${seconds > 0 ? ` Duration: ${seconds.toFixed(0)} s.` : ""}`,
    ...(lines.length > 0 ? [linesTable(lines)] : []),
    ...tables.map(tableText),
  ].join("\n\n");
}

const capitalized = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

const tableText = ({ title, columns, rows, notes }: Table): string =>
  [`### ${capitalized(title)}`, cellsTable(columns, rows), ...notes].join("\n\n");

const linesTable = (lines: readonly Line[]): string =>
  cellsTable(
    ["measure", "baseline", "measured", "compared", "goal", "result"],
    lines.map(({ name, baseline, measured, compared, goal, verdict }) => [
      name,
      baseline,
      measured,
      compared,
      goal,
      verdict === "MISSED" ? "**missed**" : verdict,
    ]),
  );

/** The first column is text. */
function cellsTable(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  const ruler = columns.map((_, column) => (column === 0 ? "---" : "---:"));
  return [line(columns), line(ruler), ...rows.map(line)].join("\n");
}
