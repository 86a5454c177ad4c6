#!/usr/bin/env node
// Starts the belljar of this platform, which is in a package of its own: npm installs the one whose `os` and `cpu` match.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "belljar.exe" : "belljar";
let binary;
try {
  binary = require.resolve(`@belljar/${platform}/bin/${file}`);
} catch {
  console.error(
    `belljar: the package @belljar/${platform} is not installed. If this platform has one, npm left it out, as with ` +
      "--omit=optional, or with a lock file of another platform: remove node_modules and package-lock.json, and install " +
      "again. Otherwise build belljar from its sources, with cargo.",
  );
  process.exit(125);
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends Ctrl-C to both; what another process sends to this one is passed on. Belljar decides when to end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => signal === "SIGINT" && process.stdin.isTTY || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`belljar: cannot start ${binary}: ${error.message}`);
  process.exit(126);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
