'use strict';
// What the runner of GitHub Actions and an action tell each other: inputs by variables, all else by files and by lines
// on stdout.

const fs = require('node:fs');
const { randomUUID } = require('node:crypto');

// An input of action.yml, as text.
const input = (name) => (process.env[`INPUT_${name.toUpperCase()}`] ?? '').trim();

// Appends a value to the file that this variable names. No value can contain the line that ends it.
const set = (variable, name, value) => {
  const end = `end-${randomUUID()}`;
  fs.appendFileSync(process.env[variable], `${name}<<${end}\n${value}\n${end}\n`);
};

// Shows a message as an error of the step. The exit code makes the step fail.
const fail = (message, code = 1) => {
  const line = message.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
  console.log(`::error title=beadlock::${line}`);
  process.exitCode = code;
};

// Why the program could not be started.
const notStarted = (error) =>
  error.code === 'ENOENT'
    ? 'there is no program beadlock in PATH: install it on the machine of this runner, which is the one with the database'
    : `beadlock cannot be started: ${error.message}`;

module.exports = { input, set, fail, notStarted };
