'use strict';
// Plays main.js and post.js as the runner does, with the real program: $BEADLOCK_BIN is its directory.

const { test, beforeEach, afterEach } = require('node:test');
const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const { randomUUID } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const ACTION = path.dirname(__dirname);
const { BEADLOCK_BIN, PATH, BEADLOCK_TEST_SCENE } = process.env;
const BEADLOCK = path.join(BEADLOCK_BIN, 'beadlock');

let dir;
let lock;
// In the environment of all that a test starts.
let mark;

beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'beadlock-action-'));
  fs.mkdirSync(path.join(dir, '.beads'));
  lock = path.join(dir, '.beads/.exclusive-lock');
  mark = `BEADLOCK_TEST_MARK=${randomUUID()}`;
});

afterEach(async () => {
  if (fs.existsSync(lock)) beadlock('release', '--missing-ok', '--id', JSON.parse(fs.readFileSync(lock)).beadlock?.id ?? '');
  await until('nothing that the test has started lives', () => survivors().length === 0);
  fs.rmSync(dir, { recursive: true });
});

const environment = (more) => ({
  PATH: `${BEADLOCK_BIN}:${PATH}`,
  BEADLOCK_TEST_MARK: mark.split('=')[1],
  ...(BEADLOCK_TEST_SCENE && { BEADLOCK_TEST_SCENE }),
  ...more,
});
const beadlock = (...args) => spawnSync(BEADLOCK, args, { cwd: dir, env: environment(), encoding: 'utf8' });
const holder = () => JSON.parse(fs.readFileSync(lock)).holder;

function survivors() {
  const has = (pid) => {
    try {
      return fs.readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(mark);
    } catch {
      return false;
    }
  };
  return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name) && has(name));
}

async function until(what, seen) {
  for (const end = Date.now() + 20_000; !seen(); ) {
    assert.ok(Date.now() < end, `waited in vain: ${what}`);
    await new Promise((done) => setTimeout(done, 10));
  }
}

// The values in a file that an action has appended to, as the runner reads it.
function values(file) {
  const found = {};
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  while (lines.length > 1) {
    const [, name, end] = /^([^=]+?)<<(.+)$/.exec(lines.shift());
    const at = lines.indexOf(end);
    assert.notEqual(at, -1, `${name} has an end`);
    found[name] = lines.splice(0, at + 1).slice(0, -1).join('\n');
  }
  return found;
}

// One job: a step's variables reach the later steps, the state of main.js its post.js.
class Job {
  constructor(name, more = {}) {
    this.name = name;
    this.env = environment({
      GITHUB_SERVER_URL: 'https://ci.example.org',
      GITHUB_REPOSITORY: 'ann/shop',
      GITHUB_RUN_ID: '17',
      GITHUB_WORKFLOW: 'release',
      GITHUB_JOB: name,
      RUNNER_TEMP: dir,
      RUNNER_TRACKING_ID: name,
      ...more,
    });
    this.state = {};
    this.outputs = {};
  }

  start(file, more) {
    const files = {};
    for (const name of ['GITHUB_ENV', 'GITHUB_OUTPUT', 'GITHUB_STATE']) {
      files[name] = path.join(dir, `${name} ${randomUUID()}`);
      fs.writeFileSync(files[name], '');
    }
    const child = spawn(process.execPath, [path.join(ACTION, file)], { cwd: dir, env: { ...this.env, ...more, ...files } });
    const step = { child, out: '', err: '' };
    child.stdout.setEncoding('utf8').on('data', (text) => (step.out += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (step.err += text));
    // The runner reads the files also after a failure. A program that outlives the step may keep its stderr.
    step.ended = once(child, 'exit').then(async ([code, signal]) => {
      await until('its words', () => child.stdout.readableEnded);
      Object.assign(this.env, values(files.GITHUB_ENV));
      Object.assign(this.outputs, values(files.GITHUB_OUTPUT));
      Object.assign(this.state, values(files.GITHUB_STATE));
      return { code, signal, out: step.out, err: step.err };
    });
    return step;
  }

  // What `uses: … with: …` starts, with the defaults of action.yml.
  startMain(inputs = {}) {
    const all = { target: '', wait: '10m', 'max-hold': '1h', holder: '', ...inputs };
    const given = Object.entries(all).map(([name, value]) => [`INPUT_${name.toUpperCase()}`, value]);
    return this.start('main.js', Object.fromEntries(given));
  }
  main(inputs) {
    return this.startMain(inputs).ended;
  }
  post() {
    const state = Object.entries(this.state).map(([name, value]) => [`STATE_${name}`, value]);
    return this.start('post.js', Object.fromEntries(state)).ended;
  }
  // `run: …`
  step(script) {
    return spawnSync('sh', ['-c', script], { cwd: dir, env: this.env, encoding: 'utf8' });
  }
}

const passes = (ended) => assert.deepEqual([ended.code, ended.out], [0, ''], ended.err);
// One annotation, on one line.
function failsWith(ended, code, ...words) {
  assert.equal(ended.code, code, ended.out + ended.err);
  assert.match(ended.out, /^::error title=beadlock::[^\r\n]+\n$/);
  for (const word of words) assert.ok(ended.out.includes(word), `${word} in ${ended.out}`);
}

test('a job claims the nearest .beads, its steps are part of the claim, and its end releases it', async () => {
  const job = new Job('deploy');
  passes(await job.main());
  assert.deepEqual(job.outputs, { id: job.env.BEADLOCK_ID, lock });
  const record = JSON.parse(fs.readFileSync(lock));
  assert.equal(record.holder, 'release deploy 17');
  assert.deepEqual(
    [record.beadlock.id, record.beadlock.about],
    [job.env.BEADLOCK_ID, 'https://ci.example.org/ann/shop/actions/runs/17'],
  );
  const inside = job.step('cd / && beadlock hold --no-wait -- sh -c \'echo "$BEADLOCK_HELD_ID"\'');
  assert.deepEqual([inside.status, inside.stdout], [0, `${job.outputs.id}\n`]);
  assert.equal(beadlock('check').status, 4);
  passes(await job.post());
  assert.equal(fs.existsSync(lock), false);
});

test('a job that asks for JSON and quiet answers, and has an address of its own, is claimed likewise', async () => {
  const job = new Job('deploy', { BEADLOCK_JSON: 'true', BEADLOCK_QUIET: 'true', BEADLOCK_ABOUT: 'https://example.org/7' });
  passes(await job.main());
  assert.equal(JSON.parse(fs.readFileSync(lock)).beadlock.about, 'https://example.org/7');
  passes(await job.post());
  assert.equal(fs.existsSync(lock), false);
});

test('after a step that failed, post releases', async () => {
  const job = new Job('deploy');
  passes(await job.main());
  assert.equal(job.step('exit 3').status, 3);
  passes(await job.post());
  assert.equal(fs.existsSync(lock), false);
});

test('a claim that was lost between the steps fails the job', async () => {
  const job = new Job('deploy');
  passes(await job.main());
  fs.rmSync(lock);
  failsWith(await job.post(), 9, `the claim ${job.outputs.id} of `, 'was lost');
});

test('a claim whose time was over fails the job, and leaves the next one alone', async () => {
  const [job, other] = [new Job('deploy'), new Job('other')];
  passes(await job.main({ 'max-hold': '200ms' }));
  passes(await other.main({ wait: '20s' }));
  failsWith(await job.post(), 9, 'its --max-hold was over', 'release other 17');
  assert.equal(holder(), 'release other 17');
  passes(await other.post());
});

test('a target that another one holds fails main with its name, and post does nothing', async () => {
  const [job, other] = [new Job('deploy'), new Job('other')];
  passes(await other.main());
  failsWith(await job.main({ wait: '100ms' }), 4, 'is held by release other 17 (PID ', 'gave up after 100ms');
  assert.deepEqual([job.state, job.outputs, job.env.BEADLOCK_ID], [{}, {}, undefined]);
  passes(await job.post());
  assert.equal(holder(), 'release other 17');
  passes(await other.post());
});

test('of two jobs at once one waits, and has it after the post of the other', async () => {
  const [job, other] = [new Job('deploy'), new Job('other')];
  passes(await job.main());
  const waiting = other.startMain();
  await until('it waits', () => waiting.err.includes('waiting for release deploy 17'));
  passes(await job.post());
  passes(await waiting.ended);
  assert.equal(holder(), 'release other 17');
  passes(await other.post());
  assert.equal(fs.existsSync(lock), false);
});

for (const signal of ['SIGINT', 'SIGTERM']) {
  test(`a main that is cancelled by ${signal} while it waits claims nothing`, async () => {
    const [job, other] = [new Job('deploy'), new Job('other')];
    passes(await other.main());
    const waiting = job.startMain();
    await until('it waits', () => waiting.err.includes('waiting for'));
    waiting.child.kill(signal);
    const ended = await waiting.ended;
    assert.notEqual(ended.code, 0);
    assert.equal(ended.out, '::error title=beadlock::cancelled\n');
    assert.deepEqual(job.state, {});
    passes(await job.post());
    passes(await other.post());
    assert.equal(fs.existsSync(lock), false);
  });
}

test('a main that is killed while it waits leaves no claim behind', async () => {
  const [job, other] = [new Job('deploy'), new Job('other')];
  passes(await other.main());
  const waiting = job.startMain();
  await until('it waits', () => waiting.err.includes('waiting for'));
  waiting.child.kill('SIGKILL');
  assert.equal((await waiting.ended).signal, 'SIGKILL');
  passes(await job.post());
  passes(await other.post());
  // `beadlock acquire` gets the claim now, cannot say so, and takes it back.
  await until('it has given up', () => survivors().length === 0);
  assert.equal(fs.existsSync(lock), false);
});

// A beadlock in PATH that does more around the real one.
function wrapped(script) {
  const bin = path.join(dir, 'bin');
  fs.mkdirSync(bin);
  fs.writeFileSync(path.join(bin, 'beadlock'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return { PATH: `${bin}:${BEADLOCK_BIN}:${PATH}` };
}

test('a main that is killed once the claim is printed: its time ends the claim', async () => {
  const audit = path.join(dir, 'audit');
  const job = new Job('deploy', { ...wrapped(`'${BEADLOCK}' "$@"; kill -KILL $PPID`), BEADLOCK_AUDIT: audit });
  const ended = await job.main({ 'max-hold': '300ms' });
  assert.equal(ended.signal, 'SIGKILL');
  assert.notEqual(fs.readFileSync(audit, 'utf8'), '', 'it had the claim');
  assert.deepEqual(job.state, {});
  passes(await job.post());
  await until('the claim has ended', () => survivors().length === 0);
  assert.equal(fs.existsSync(lock), false);
});

test('a main that is cancelled just as it has the claim: post releases it', async () => {
  const job = new Job('deploy', wrapped(`trap 'exit 0' TERM; '${BEADLOCK}' "$@"; kill -TERM $PPID; while :; do sleep 0.05; done`));
  const ended = await job.main();
  assert.notEqual(ended.code, 0);
  assert.equal(ended.out, '::error title=beadlock::cancelled\n');
  assert.equal(fs.existsSync(lock), true);
  fs.rmSync(path.join(dir, 'bin'), { recursive: true });
  passes(await job.post());
  assert.equal(fs.existsSync(lock), false);
});

test('after a main that did not come to its end, post takes a claim that is gone for no loss', async () => {
  const job = new Job('deploy');
  passes(await job.main());
  delete job.state.claimed;
  fs.rmSync(lock);
  passes(await job.post());
});

test('all that the job has started is killed, the keeper too: post says that the claim was lost', async () => {
  const job = new Job('deploy');
  passes(await job.main());
  for (const pid of survivors()) process.kill(pid, 'SIGKILL');
  await until('they are gone', () => survivors().length === 0);
  // A stale lock: the next job gets it at once.
  const next = new Job('next');
  passes(await next.main({ wait: '10s' }));
  failsWith(await job.post(), 9, 'was lost');
  passes(await next.post());
});

test('the action twice on one target is one claim, which the post of the first step ends', async () => {
  const job = new Job('deploy');
  passes(await job.main());
  const outer = job.state;
  job.state = {};
  passes(await job.main());
  passes(await job.post());
  assert.equal(fs.existsSync(lock), true);
  assert.equal(job.step('beadlock hold --no-wait -- true').status, 0);
  job.state = outer;
  passes(await job.post());
  assert.equal(fs.existsSync(lock), false);
});

test('two targets in one job are two claims', async () => {
  const job = new Job('deploy');
  passes(await job.main());
  const first = job.state;
  job.state = {};
  passes(await job.main({ target: `lock:${dir}/staging.lock` }));
  assert.equal(job.outputs.lock, path.join(dir, 'staging.lock'));
  passes(await job.post());
  assert.deepEqual([fs.existsSync(path.join(dir, 'staging.lock')), fs.existsSync(lock)], [false, true]);
  job.state = first;
  passes(await job.post());
  assert.equal(fs.existsSync(lock), false);
});

test('odd targets and names arrive as they are', async () => {
  for (const name of ['a b', `it's "q"`, '--help', '-x', '$(touch no)', '%0A::error::', 'line\nbreak', 'end<<end=1']) {
    const beads = path.join(dir, name, '.beads');
    fs.mkdirSync(beads, { recursive: true });
    for (const target of [beads, `./${name}/.beads`]) {
      const job = new Job('deploy');
      passes(await job.main({ target, holder: name.replace('\n', '') }));
      assert.equal(job.outputs.lock, path.join(beads, '.exclusive-lock'));
      assert.equal(JSON.parse(fs.readFileSync(job.outputs.lock)).holder, name.replace('\n', ''));
      const inside = job.step('cd / && beadlock hold --no-wait -- true');
      assert.equal(inside.status, 0, inside.stderr);
      passes(await job.post());
      assert.deepEqual(fs.readdirSync(beads), [], name);
    }
  }
  assert.equal(fs.existsSync(path.join(dir, 'no')), false);
});

test('wrong inputs fail in words, on one line', async () => {
  const job = new Job('deploy');
  failsWith(await job.main({ target: '--help' }), 1, '--help does not exist');
  failsWith(await job.main({ target: '50%\nno' }), 1, '50%25');
  failsWith(await job.main({ wait: 'soon' }), 2, "invalid value 'soon' for '--wait");
  failsWith(await new Job('deploy', wrapped('kill -KILL $$')).main(), 1, 'beadlock acquire ended with SIGKILL');
  passes(await job.post());
  const left = fs.readdirSync(dir).filter((name) => name.startsWith('beadlock-'));
  assert.deepEqual(left, [], 'no report is left');
});

test('without beadlock in PATH both say what to do', async () => {
  const job = new Job('deploy');
  failsWith(await new Job('deploy', { PATH: dir }).main(), 1, 'there is no program beadlock in PATH: install it');
  passes(await job.main());
  const kept = job.env.PATH;
  job.env.PATH = dir;
  failsWith(await job.post(), 1, 'there is no program beadlock in PATH');
  job.env.PATH = kept;
  passes(await job.post());
});

test('action.yml names these files and inputs', () => {
  const text = fs.readFileSync(path.join(ACTION, 'action.yml'), 'utf8');
  for (const line of ['using: node20', 'main: main.js', 'post: post.js', 'post-if: always()']) assert.ok(text.includes(`\n  ${line}\n`));
  const named = (part) => [...new RegExp(`^${part}:\\n((?: .*\\n|\\n)+)`, 'm').exec(text)[1].matchAll(/^ {2}(\S+):$/gm)].map(([, name]) => name);
  const main = fs.readFileSync(path.join(ACTION, 'main.js'), 'utf8');
  assert.deepEqual(named('inputs'), ['target', 'wait', 'max-hold', 'holder']);
  for (const name of named('inputs')) assert.ok(main.includes(`input('${name}')`), name);
  for (const name of named('outputs')) assert.ok(main.includes(`set('GITHUB_OUTPUT', '${name}'`), name);
});
