'use strict';
// Claims the target, and tells the later steps and post.js which claim it is. `beadlock acquire` undoes a claim that it
// cannot print, so one that this process was not there to read does not last.

const { spawn } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { input, set, fail, notStarted } = require('./runner');

const { env } = process;
const report = path.join(env.RUNNER_TEMP || os.tmpdir(), `beadlock-${randomUUID()}.json`);
const holder = input('holder') || [env.GITHUB_WORKFLOW, env.GITHUB_JOB, env.GITHUB_RUN_ID].filter(Boolean).join(' ');
const options = { wait: input('wait'), 'max-hold': input('max-hold'), holder, report };
const target = input('target');
const args = ['acquire', '--json=false', '--detach'];
for (const [name, value] of Object.entries(options)) if (value) args.push(`--${name}=${value}`);
if (target) args.push('--', target);

// Everybody who waits is shown the page of this run.
const run = env.GITHUB_RUN_ID && `${env.GITHUB_SERVER_URL}/${env.GITHUB_REPOSITORY}/actions/runs/${env.GITHUB_RUN_ID}`;
const about = env.BEADLOCK_ABOUT || run;
const beadlock = spawn('beadlock', args, {
  env: about ? { ...env, BEADLOCK_ABOUT: about } : env,
  stdio: ['ignore', 'pipe', 'pipe'],
});

// The runner signals this process alone when the job is cancelled.
let cancelled = false;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    cancelled = true;
    beadlock.kill(signal);
  });
}

let printed = '';
let words = '';
beadlock.stdout.setEncoding('utf8').on('data', (text) => (printed += text));
beadlock.stderr.setEncoding('utf8').on('data', (text) => {
  words += text;
  process.stderr.write(text);
});
beadlock.on('error', (error) => fail(notStarted(error)));
beadlock.on('close', (code, signal) => {
  if (beadlock.pid === undefined) return;
  if (code === 0) claimed();
  const { data, error } = takeReport();
  if (cancelled) fail('cancelled', code || 1);
  else if (code !== 0) fail(error?.message ?? (words.trim() || `beadlock acquire ended with ${signal ?? code}`), code || 1);
  else {
    set('GITHUB_OUTPUT', 'id', data.id);
    set('GITHUB_OUTPUT', 'lock', data.path);
    // From here on post.js takes a claim that is not there for a lost one.
    set('GITHUB_STATE', 'claimed', 'true');
  }
});

// The lines `export NAME='VALUE'` become variables of the later steps, where a `beadlock hold` is part of the claim. An odd
// name keeps its quotes, and beadlock reads it with them. post.js comes first, since it ends the claim.
function claimed() {
  const lines = printed.split('\n').map((line) => /^export (\w+)=(?:'([^']*)'|(.*))$/.exec(line));
  const variables = lines.filter(Boolean).map(([, name, plain, quoted]) => [name, plain ?? quoted]);
  set('GITHUB_STATE', 'variables', variables.map((variable) => variable.join('=')).join('\n'));
  for (const [name, value] of variables) set('GITHUB_ENV', name, value);
}

// The outcome as `beadlock acquire --report` has written it; nothing after a wrong command line.
function takeReport() {
  try {
    const text = fs.readFileSync(report, 'utf8');
    fs.rmSync(report);
    return JSON.parse(text);
  } catch {
    return {};
  }
}
