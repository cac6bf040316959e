#!/usr/bin/env node
// Starts bridgehead under a Node.js that can run it: this one when it is new enough, else the one that came with the
// package. Plain old JavaScript, because an old Node.js has to be able to read it.
"use strict";

var childProcess = require("child_process");
var fs = require("fs");
var nodeModule = require("module");
var os = require("os");
var path = require("path");
var url = require("url");

var root = path.join(__dirname, "..");

function supported(version) {
  var parts = version.split(".").map(Number);
  return parts[0] > 22 || (parts[0] === 22 && parts[1] >= 19);
}

/** src/commands/io.ts has the table: EX_SOFTWARE and EX_OSERR. */
var crashed = 70;
var noNode = 71;

/** Commands that run until SIGTERM: for them SIGTERM while they are loaded is an orderly end. */
var isDaemon = ["run", "platform"].indexOf(process.argv[2]) >= 0;

/** Writes an error; where standard error is the journal (systemd.exec(5), JOURNAL_STREAM), with the priority err. */
function complain(text) {
  var journal = false;
  try {
    var stat = fs.fstatSync(2);
    journal = process.env.JOURNAL_STREAM === stat.dev + ":" + stat.ino;
  } catch (error) {
    if (error.code !== "EBADF") throw error;
  }
  console.error(journal ? text.replace(/^/gm, "<3>") : text);
}

/** The brought Node.js, or null. npm installs the package of this system only. */
function broughtNode() {
  var names = { win32: "win" };
  var name = "node-" + (names[process.platform] || process.platform) + "-" + process.arch;
  try {
    var folder = path.dirname(require.resolve(name + "/package.json", { paths: [root] }));
    var file = path.join(folder, "bin", process.platform === "win32" ? "node.exe" : "node");
    return fs.existsSync(file) ? file : null;
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
    return null;
  }
}

/** A checkout runs from source, a package from what was built. */
function program() {
  var built = path.join(root, "dist", "src", "main.js");
  if (fs.existsSync(built)) return [built];
  return ["--conditions=source", path.join(root, "src", "main.ts")];
}

/** The folder of V8's compile cache, which halves the time of loading; null without a safe one. The code in it is executed,
 *  so it must belong to this user: systemd's CacheDirectory=, or a folder in the home that the user database names ($HOME
 *  may be another user's under sudo). */
function compileCache() {
  if (!process.getuid) return null; // Windows
  try {
    var given = process.env.CACHE_DIRECTORY;
    var folder = given ? given.split(":")[0] : path.join(os.userInfo().homedir, ".cache", "bridgehead");
    fs.mkdirSync(folder, { recursive: true, mode: 448 }); // 0700
    var stat = fs.lstatSync(folder);
    return stat.isDirectory() && stat.uid === process.getuid() && (stat.mode & 18) === 0 ? folder : null;
  } catch (error) {
    if (!error.code) throw error;
    return null; // a read-only disk, or a user without a home: modules are compiled at each start
  }
}

function spawnUnder(node) {
  var asked = false;
  var env = Object.assign({}, process.env);
  var cache = env.NODE_COMPILE_CACHE ? null : compileCache();
  if (cache !== null) env.NODE_COMPILE_CACHE = cache;
  var argv = program().concat(process.argv.slice(2));
  var child = childProcess.spawn(node, argv, { stdio: "inherit", env: env });
  ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"].forEach(function (name) {
    process.on(name, function () {
      asked = asked || name === "SIGTERM";
      // Ctrl-C at a terminal reaches the whole group: the child has it already.
      if (name !== "SIGINT" || !process.stdin.isTTY) child.kill(name);
    });
  });
  child.on("error", function (error) {
    complain("bridgehead: starting " + node + ": " + error.message);
    process.exit(noNode);
  });
  child.on("exit", function (code, signal) {
    if (signal === null) process.exit(code === null ? 1 : code);
    // The program handles SIGTERM as soon as it is loaded; before that nothing has been started.
    if (signal === "SIGTERM" && asked && isDaemon) process.exit(0);
    // The same signal ends this process, so that the parent sees what happened.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

var sourceRun = program().length > 1;
var brought;
if (supported(process.versions.node) && !sourceRun) {
  if (isDaemon) process.on("SIGTERM", process.exit.bind(process, 0)); // until main.js has its own handler
  var cache = process.env.NODE_COMPILE_CACHE ? null : compileCache();
  if (cache !== null) nodeModule.enableCompileCache(cache);
  import(url.pathToFileURL(program()[0]).href).catch(function (error) {
    complain(String((error && error.stack) || error));
    process.exit(crashed);
  });
} else if (supported(process.versions.node)) {
  // From source the `source` condition has to be given to Node.js itself, so it takes a second process.
  spawnUnder(process.execPath);
} else if ((brought = broughtNode()) !== null) {
  spawnUnder(brought);
} else {
  complain(
    "bridgehead needs Node.js 22.19 or newer; this is " +
      process.versions.node +
      " and none was installed beside it" +
      " (run npm install without --omit=optional, or install a newer Node.js; " +
      os.platform() +
      " " +
      os.arch() +
      ")",
  );
  process.exit(noNode);
}
