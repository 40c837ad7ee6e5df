'use strict';
// The package with the real program: $BEADLOCK_BIN is its directory. $BEADLOCK_NPM is the package that is tested, such as
// one that npm has installed; else the sources.

const { test, beforeEach, afterEach } = require('node:test');
const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const { randomUUID } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const PACKAGE = process.env.BEADLOCK_NPM || path.dirname(__dirname);
const { BEADLOCK_BIN } = process.env;
if (BEADLOCK_BIN) process.env.PATH = `${BEADLOCK_BIN}:${process.env.PATH}`;
// In the environment of all that a test starts.
const MARK = randomUUID();
process.env.BEADLOCK_TEST_MARK = MARK;
const { hold, check, status, BeadlockError } = require(PACKAGE);

let dir;
let beads;
let lock;

beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'beadlock-npm-'));
  beads = path.join(dir, '.beads');
  fs.mkdirSync(beads);
  lock = path.join(beads, '.exclusive-lock');
  process.env.TMPDIR = path.join(dir, 'tmp');
  fs.mkdirSync(process.env.TMPDIR);
});

afterEach(async () => {
  await until('nothing that the test has started lives', () => survivors().length === 0);
  assert.deepEqual(fs.readdirSync(process.env.TMPDIR), [], 'no temporary file is left');
  delete process.env.TMPDIR;
  fs.rmSync(dir, { recursive: true });
});

function survivors() {
  const has = (pid) => {
    try {
      return Number(pid) !== process.pid && fs.readFileSync(`/proc/${pid}/environ`, 'utf8').includes(MARK);
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

const read = () => JSON.parse(fs.readFileSync(lock));
const gone = () => assert.equal(fs.existsSync(lock), false);

test('hold claims while fn runs, and resolves to its value', async () => {
  const value = await hold(beads, { holder: 'import', about: 'https://example.org/7' }, async (claim) => {
    const record = read();
    assert.deepEqual([record.holder, record.beadlock.about], ['import', 'https://example.org/7']);
    assert.equal(record.beadlock.id, claim.id);
    assert.equal(claim.signal.aborted, false);
    const held = await check(beads);
    assert.deepEqual([held.decision, held.holder, held.id], ['skip', 'import', claim.id]);
    const seen = await status(beads);
    assert.deepEqual([seen.verdict, seen.holder, seen.path], ['held', 'import', lock]);
    // A hold in a child process is part of the claim.
    const inside = spawnSync('sh', ['-c', 'echo "$0"; exec beadlock hold --no-wait "$1" -- true', 'sh', beads], {
      env: { ...process.env, PATH: `${path.join(PACKAGE, 'bin')}:${process.env.PATH}`, ...claim.env },
      encoding: 'utf8',
    });
    assert.equal(inside.status, 0, inside.stderr);
    return 7;
  });
  assert.equal(value, 7);
  gone();
  assert.deepEqual([(await check(beads)).decision, (await status(beads)).verdict], ['proceed', 'free']);
});

test('hold takes fn alone, and the name of the script', async () => {
  await hold(beads, () => assert.equal(read().holder, path.basename(process.argv[1] ?? process.title)));
  gone();
});

test('fn that throws: hold releases, and rejects with its error', async () => {
  const error = new Error('mine');
  const thrower = () => {
    throw error;
  };
  await assert.rejects(hold(beads, thrower), error);
  gone();
  await assert.rejects(hold(beads, async () => thrower()), error);
  gone();
});

test('two holds of one process take turns', async () => {
  const order = [];
  const turn = (name) => async () => {
    order.push(`${name} has it`);
    await new Promise((done) => setTimeout(done, 50));
    order.push(`${name} ends`);
  };
  await Promise.all([hold(beads, turn('a')), hold(beads, turn('b'))]);
  const [first, second] = order[0][0] === 'a' ? ['a', 'b'] : ['b', 'a'];
  assert.deepEqual(order, [`${first} has it`, `${first} ends`, `${second} has it`, `${second} ends`]);
});

test('a target that is held until the wait ends rejects, and fn does not run', async () => {
  await hold(beads, { holder: 'import' }, async () => {
    await assert.rejects(hold(beads, { wait: 0 }, () => assert.fail('it ran')), (error) => {
      assert.ok(error instanceof BeadlockError);
      assert.deepEqual([error.code, error.exit], ['LOCK_HELD', 4]);
      assert.match(error.message, /is held by import \(PID /);
      return true;
    });
  });
  gone();
});

test('a claim that is lost aborts the signal, and rejects', async () => {
  const lost = hold(beads, async (claim) => {
    fs.rmSync(lock);
    await once(claim.signal, 'abort');
    assert.equal(claim.signal.reason.code, 'LOCK_LOST');
    throw new Error('interrupted');
  });
  await assert.rejects(lost, (error) => {
    assert.deepEqual([error.code, error.exit, error.cause.message], ['LOCK_LOST', 9, 'interrupted']);
    assert.match(error.message, /lost the lock/);
    return true;
  });
});

test('a claim that is lost just before fn returns rejects too', async () => {
  await assert.rejects(hold(beads, () => fs.rmSync(lock)), { code: 'LOCK_LOST', exit: 9 });
});

test('a wait is cancelled by its signal, with its reason', async () => {
  await hold(beads, async () => {
    const cancel = new AbortController();
    const waiting = hold(beads, { wait: 'forever', signal: cancel.signal }, () => assert.fail('it ran'));
    await until('it waits', () => survivors().some((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--wait=forever')));
    cancel.abort(new Error('enough'));
    await assert.rejects(waiting, { message: 'enough' });
    assert.ok(fs.existsSync(lock));
  });
  await assert.rejects(hold(beads, { signal: AbortSignal.abort(new Error('before')) }, () => assert.fail('it ran')), { message: 'before' });
  gone();
});

for (const signal of ['SIGKILL', 'SIGTERM', 'SIGINT']) {
  test(`${signal} to the process ends its claim`, async () => {
    const script = `require(${JSON.stringify(PACKAGE)}).hold(${JSON.stringify(beads)}, () => {
      console.log('held');
      return new Promise((done) => setTimeout(done, 600_000));
    })`;
    const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    assert.ok(fs.existsSync(lock));
    child.kill(signal);
    assert.deepEqual(await once(child, 'exit'), [null, signal]);
    await until('the lock is gone', () => !fs.existsSync(lock));
    // Nothing could remove these.
    for (const name of fs.readdirSync(process.env.TMPDIR)) fs.rmSync(path.join(process.env.TMPDIR, name), { recursive: true });
  });
}

test('a claim whose process is killed is over, and rejects', async () => {
  const lost = hold(beads, async (claim) => {
    process.kill(read().pid, 'SIGKILL');
    await once(claim.signal, 'abort');
  });
  await assert.rejects(lost, { name: 'BeadlockError', exit: 137 });
});

test('other kinds of targets, and odd names', async () => {
  const odd = path.join(dir, `it's "a"\n$(b)`, '.beads');
  fs.mkdirSync(odd, { recursive: true });
  for (const target of [odd, `lock:${dir}/a.lock`, `dir:${dir}`, `file:${dir}/notes.json`, `flock:${dir}/f`]) {
    fs.writeFileSync(path.join(dir, 'notes.json'), '{}');
    const held = await hold(target, { wait: '10s' }, async () => (await check(target)).decision);
    assert.equal(held, 'skip', target);
    assert.equal((await check(target)).decision, 'proceed', target);
  }
});

test('errors have a code, an exit code and the words of beadlock', async () => {
  const missing = path.join(dir, 'nowhere');
  for (const answer of [() => check(missing), () => status(missing), () => hold(missing, () => {})]) {
    await assert.rejects(answer, { name: 'BeadlockError', code: 'NO_TARGET', exit: 1, message: /nowhere does not exist/ });
  }
  for (const answer of [() => check('--help'), () => status('-x')]) await assert.rejects(answer, { code: 'NO_TARGET' });
  await assert.rejects(hold('--and', () => {}), { code: 'NO_TARGET' });
  await assert.rejects(hold(beads, { wait: 'soon' }, () => {}), { code: 'USAGE', exit: 2, message: /invalid value 'soon'/ });
  fs.writeFileSync(lock, 'no record');
  assert.deepEqual([(await check(beads)).reason, (await status(beads)).verdict], ['malformed', 'unreadable']);
  fs.rmSync(lock);
});

test('without a program all three say so', { skip: fs.existsSync(path.join(PACKAGE, 'bin')) && 'the program is in it' }, async () => {
  const { PATH } = process.env;
  process.env.PATH = dir;
  try {
    const answers = [() => check(beads), () => status(beads), () => hold(beads, () => {})];
    for (const answer of answers) await assert.rejects(answer, { code: 'NOT_INSTALLED', exit: null });
  } finally {
    process.env.PATH = PATH;
  }
});

const guide = path.join(__dirname, '../../../docs/guide/node.md');
test('the example of the guide does what it says', { skip: !fs.existsSync(guide) && 'without a checkout' }, () => {
  const [, example] = fs.readFileSync(guide, 'utf8').match(/```js\n([^]*?)```/);
  const program = example.replace("require('beadlock')", `require(${JSON.stringify(PACKAGE)})`);
  const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', program], { cwd: dir, encoding: 'utf8' });
  assert.deepEqual([status, stderr], [0, '']);
  assert.match(stdout, /^Skipping database \(locked by import\)\nfree beadlock hold .beads -- CMD\n$/);
});

test('package.json and the types name what is there', () => {
  const { main, types, files, bin } = require(path.join(PACKAGE, 'package.json'));
  assert.deepEqual(bin, { beadlock: 'bin/beadlock', 'beadlock-agent': 'bin/beadlock-agent' });
  assert.deepEqual([...files].sort(), ['bin', types, main].sort());
  const declared = fs.readFileSync(path.join(PACKAGE, types), 'utf8').matchAll(/^export (?:function|class) (\w+)/gm);
  assert.deepEqual([...new Set([...declared].map(([, name]) => name))].sort(), Object.keys(require(PACKAGE)).sort());
});
