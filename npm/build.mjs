// Packs the npm packages: `belljar`, and one for each platform, which it needs optionally.
//
//   node npm/build.mjs OUT [PLATFORM=BINARY]...     PLATFORM: one of those below
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

// As `process.platform` and `process.arch` of Node.js, joined by `-`.
const PLATFORMS = ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64", "win32-arm64", "win32-x64"];

const root = fileURLToPath(new URL("..", import.meta.url));
const [, version] = readFileSync(join(root, "Cargo.toml"), "utf8").match(/^version = "(.*)"$/m);
const common = { version, license: "Apache-2.0 OR MIT", engines: { node: ">=18" } };
const scratch = mkdtempSync(join(tmpdir(), "belljar-npm-"));

const [, , out, ...binaries] = process.argv;
if (!out) {
  console.error("usage: node npm/build.mjs OUT [PLATFORM=BINARY]...");
  process.exit(2);
}
mkdirSync(out, { recursive: true });

function pack(folder, description) {
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(description, null, 2)}\n`);
  for (const license of ["LICENSE-APACHE", "LICENSE-MIT"]) cpSync(join(root, license), join(folder, license));
  const options = ["pack", "--silent", "--ignore-scripts", "--pack-destination", resolve(out)];
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  process.stdout.write(execFileSync(npm, options, { cwd: folder, shell: process.platform === "win32" }));
}

try {
  const main = join(scratch, "belljar");
  cpSync(join(root, "npm/belljar"), main, { recursive: true });
  pack(main, {
    name: "belljar",
    description: "A WASI sandbox runtime for hermetic toolchains",
    keywords: ["wasi", "wasm", "sandbox", "hermetic", "reproducible"],
    ...common,
    bin: { belljar: "bin/belljar.js" },
    files: ["bin", "LICENSE-*"],
    optionalDependencies: Object.fromEntries(PLATFORMS.map((platform) => [`@belljar/${platform}`, version])),
  });
  for (const [platform, binary] of binaries.map((word) => word.split(/=(.*)/s))) {
    if (!PLATFORMS.includes(platform)) throw new Error(`no platform ${platform}: one of ${PLATFORMS.join(", ")}`);
    const [os, cpu] = platform.split("-");
    const folder = join(scratch, platform);
    const file = os === "win32" ? "belljar.exe" : "belljar";
    mkdirSync(join(folder, "bin"), { recursive: true });
    cpSync(binary, join(folder, "bin", file));
    chmodSync(join(folder, "bin", file), 0o755);
    writeFileSync(join(folder, "README.md"), `# @belljar/${platform}\n\nThe program of the package \`belljar\` for ${platform}.\n`);
    pack(folder, {
      name: `@belljar/${platform}`,
      description: `The program of the package belljar for ${platform}`,
      ...common,
      os: [os],
      cpu: [cpu],
      files: ["bin", "LICENSE-*"],
      preferUnplugged: true,
    });
  }
} finally {
  rmSync(scratch, { recursive: true });
}
