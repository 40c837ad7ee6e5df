'use strict';
// Releases the claim of main.js, also after a failure. Fails where the claim was lost: then the steps ran without it.

const { spawnSync } = require('node:child_process');
const { fail, notStarted } = require('./runner');

const { STATE_variables: variables, STATE_claimed: wasClaimed, ...env } = process.env;

if (variables) {
  for (const line of variables.split('\n')) {
    const at = line.indexOf('=');
    env[line.slice(0, at)] = line.slice(at + 1);
  }
  const args = ['release', '--json'];
  // Where main.js did not come to its end, no step relied on the claim.
  if (!wasClaimed) args.push('--missing-ok');
  const { error, status, signal, stdout } = spawnSync('beadlock', args, {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  if (error) fail(notStarted(error));
  else if (status !== 0) fail(messageOf(stdout) ?? `beadlock release ended with ${signal ?? status}`, status || 1);
}

function messageOf(envelope) {
  try {
    return JSON.parse(envelope).error.message;
  } catch {
    return undefined;
  }
}
