'use strict';
// Claims for Node programs, by the program beadlock: the one in this package, else the one in PATH.

const { execFile, spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const packaged = path.join(__dirname, 'bin', 'beadlock');
const program = fs.existsSync(packaged) ? packaged : 'beadlock';

// An answer of beadlock that is an error: `code` as in its JSON, `exit` its exit code, null when a signal has ended it.
class BeadlockError extends Error {
  constructor(message, { code = 'FAILED', exit = null }) {
    super(message);
    this.name = 'BeadlockError';
    this.code = code;
    this.exit = exit;
  }
}

const notStarted = (error) =>
  error.code === 'ENOENT'
    ? new BeadlockError('there is no program beadlock in this package or in PATH', { code: 'NOT_INSTALLED' })
    : error;

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

// The error that an envelope of beadlock tells of.
function failed({ error }, exit, words) {
  const message = error?.message ?? (words.trim() || `beadlock ended with ${exit ?? 'a signal'}`);
  return new BeadlockError(message, { code: error?.code ?? (exit === 2 ? 'USAGE' : undefined), exit });
}

// The row of one target in the answer of `beadlock COMMAND --json`. That a target is held is an answer, and no error.
const look = (command) => (target) =>
  new Promise((resolve, reject) => {
    const args = [command, '--json=true', '--', ...(target === undefined ? [] : [target])];
    execFile(program, args, { encoding: 'utf8' }, (error, stdout, stderr) => {
      if (error && typeof error.code === 'string') return reject(notStarted(error));
      const envelope = parsed(stdout);
      if (envelope.ok) return resolve(envelope.data[0]);
      reject(failed(envelope, error?.code ?? null, stderr));
    });
  });

// The command of the claim: it prints the variables that the claim gives it, and lives until its stdin ends. That happens
// when this process closes it, and when this process has ended, however it has.
const COMMAND = ['sh', '-c', "env -0; printf '\\0'; exec cat >/dev/null"];

// Before the command only a path can begin with a dash.
const typed = (target) => (target === undefined ? [] : [target.startsWith('-') ? `./${target}` : target]);

function argumentsOf(target, { wait, drain, holder, about }, report) {
  const given = Object.entries({ wait, drain, holder, about, report }).filter(([, value]) => value !== undefined);
  const options = given.map(([name, value]) => `--${name}=${value}`);
  return ['hold', '--quiet', '--json=false', ...options, ...typed(target), '--', ...COMMAND];
}

// Not options: a kind of target for which these mean nothing would refuse them.
const environment = () => ({
  BEADLOCK_HOLDER: path.basename(process.argv[1] ?? process.title),
  ...process.env,
  BEADLOCK_ON_LOSS: 'kill',
});

// Claims the target, runs fn, and releases, also when fn throws. The claim is that of `beadlock hold`, in a session of its
// own: a Ctrl-C ends it only where it ends this process.
async function hold(target, options, fn) {
  if (typeof options === 'function') [options, fn] = [{}, options];
  const cancel = options.signal;
  cancel?.throwIfAborted();
  const dir = await fs.promises.mkdtemp(path.join(os.tmpdir(), 'beadlock-'));
  let begun = false;
  try {
    const report = path.join(dir, 'report.json');
    const child = spawn(program, argumentsOf(target, options, report), {
      env: environment(),
      detached: true,
      stdio: 'pipe',
    });
    const stop = () => child.kill('SIGTERM');
    cancel?.addEventListener('abort', stop);
    const ended = endOf(child, report);
    const env = await Promise.race([variablesOf(child), ended.then((error) => Promise.reject(error))]);
    cancel?.removeEventListener('abort', stop);
    const lost = new AbortController();
    ended.then((error) => error && lost.abort(error));
    return await released(child, ended, async () => {
      cancel?.throwIfAborted();
      begun = true;
      return fn({ id: env.BEADLOCK_HELD_ID, env, signal: lost.signal });
    });
  } catch (error) {
    if (!begun) cancel?.throwIfAborted();
    throw error;
  } finally {
    await fs.promises.rm(dir, { recursive: true, force: true });
  }
}

// Runs the work, and ends the claim. Where the claim was lost, that is the error, and one of the work its cause.
async function released(child, ended, work) {
  const [done] = await Promise.allSettled([work()]);
  child.stdin.end();
  const error = await ended;
  if (error) {
    if (done.status === 'rejected') error.cause = done.reason;
    throw error;
  }
  if (done.status === 'rejected') throw done.reason;
  return done.value;
}

// The variables of the claim, once it stands.
function variablesOf(child) {
  return new Promise((resolve) => {
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      printed += text;
      if (!printed.endsWith('\0\0')) return;
      const pairs = printed.split('\0').map((line) => /^(BEADLOCK_HELD_\w+|BEADLOCK_FENCING_TOKEN)=([^]*)$/.exec(line));
      resolve(Object.fromEntries(pairs.filter(Boolean).map(([, name, value]) => [name, value])));
    });
  });
}

// Why the hold has ended; undefined after a release.
function endOf(child, report) {
  let words = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (words += text));
  // The command is gone: the exit code says why.
  child.stdin.on('error', () => {});
  return new Promise((resolve) => {
    child.on('error', (error) => resolve(notStarted(error)));
    child.on('close', async (exit) => {
      if (exit === 0) return resolve(undefined);
      resolve(failed(parsed(await fs.promises.readFile(report, 'utf8').catch(() => '')), exit, words));
    });
  });
}

module.exports = { hold, check: look('check'), status: look('status'), BeadlockError };
