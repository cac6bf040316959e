// Commands in texts for the operator, as they are typed into a shell.

/** The configuration that a command reads without `--config`. */
export const defaultConfig = "/etc/bridgehead/bridgehead.yaml";

/** Quotes a word for the shell where that is needed. */
export const shellQuoted = (word: string): string =>
  /^[\w@.+:/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** Returns the command that acts on the installation whose configuration is `config`: an operator copies it. Every text
 *  that names a command to run is written with this function. Default: the configuration at the default place. */
export const commandText = (words: string, config: string = defaultConfig): string =>
  `bridgehead ${words}${config === defaultConfig ? "" : ` --config ${shellQuoted(config)}`}`;
