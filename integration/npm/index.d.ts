/** A claim that stands while the function given to {@link hold} runs. */
export interface Claim {
  /** The id of the claim. */
  id: string;
  /** Variables for child processes: a `beadlock hold` of the target in them is part of this claim. */
  env: Record<string, string>;
  /** Aborted when the claim is lost. */
  signal: AbortSignal;
}

export interface HoldOptions {
  /** How long to wait for another holder: `'10m'`, `'forever'`, or seconds. The default depends on the target. */
  wait?: string | number;
  /** How long to wait for a running sync cycle, likewise. Default: 130 s. */
  drain?: string | number;
  /** The name that others see. Default: BEADLOCK_HOLDER, else the name of the running script. */
  holder?: string;
  /** The address of a page about this work, for everybody who waits. */
  about?: string;
  /** Ends the wait; after it the signal changes nothing. */
  signal?: AbortSignal;
}

/** What `beadlock check --json` says of a target. */
export interface Checked {
  target: string;
  path: string;
  /** Whether a daemon may work on it now. */
  decision: 'proceed' | 'skip';
  holder: string | null;
  id: string | null;
  reason: string;
  message: string;
  [more: string]: unknown;
}

/** What `beadlock status --json` says of a target. */
export interface Status {
  target: string;
  path: string;
  verdict: string;
  holder: string | null;
  id: string | null;
  reason: string;
  message: string;
  /** What to type next. */
  next: string;
  [more: string]: unknown;
}

/** An error that beadlock has answered with. */
export class BeadlockError extends Error {
  /**
   * As in the JSON answers: `LOCK_HELD`, `LOCK_LOST`, `NO_TARGET`, `USAGE`, …; `NOT_INSTALLED` where there is no program,
   * `FAILED` where it gave no answer.
   */
  code: string;
  /** The exit code of the program; null where it was not started, or a signal has ended it. */
  exit: number | null;
}

/**
 * Claims a target (undefined: the nearest .beads), runs `fn`, and releases, also when `fn` throws. It resolves to what `fn`
 * returns. It rejects with `LOCK_HELD` when another holder has the target to the end of the wait, and with `LOCK_LOST` when
 * the claim was lost meanwhile; an error of `fn` is its `cause` then. When this process ends, even by SIGKILL, the claim ends.
 *
 * Each call is a claim of its own. One inside `fn`, of the same target, waits for the outer one in vain.
 */
export function hold<T>(target: string | undefined, fn: (claim: Claim) => T | Promise<T>): Promise<T>;
export function hold<T>(target: string | undefined, options: HoldOptions, fn: (claim: Claim) => T | Promise<T>): Promise<T>;

/** Whether a daemon may work on the target now. It may remove a stale lock, as `beadlock check` does. */
export function check(target?: string): Promise<Checked>;

/** Who holds the target, since when, and what to type next. It changes nothing. */
export function status(target?: string): Promise<Status>;
