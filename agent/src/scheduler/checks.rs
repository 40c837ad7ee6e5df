//! The checks of all databases, beside the scheduler: a few threads take them from one queue.
//!
//! A check takes microseconds and many are due together, so as many threads as there are processors make them one after
//! the other. A check can also take long, for a stale lock's grace, or hang in a file system that does not answer. For
//! each [`PATIENCE`] that the first in the queue waits longer, one more thread helps; no more threads rest than there
//! are processors. So a check that hangs costs a thread and delays no other. The limit is tokio's: 512 threads.
//!
//! An answer may hold a gate. So few answers are on their way at once: behind them the threads wait for the scheduler.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

/// How long a check may wait before another thread helps, and how long it may keep a job from others in its turn.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// Answers on their way at once, each perhaps with an open directory.
const ANSWERS: usize = 128;

/// How many threads help at most while checks still end: the checks may wait for the processors.
const HELP: usize = 16;

/// How long a thread without a call stays for the next one.
const REST: Duration = Duration::from_secs(10);

/// Answers within this time after one are heard together: waking the scheduler costs more than many a check.
const TOGETHER: Duration = Duration::from_millis(1);

/// Calls on their way, each under a number, and their answers.
pub(super) struct Checks<T> {
    pool: Arc<CheckPool<T>>,
    answers: Receiver<CheckAnswer<T>>,
    /// Answers that were heard together, the first last, and when answers are heard again.
    heard: Vec<CheckAnswer<T>>,
    again: Instant,
    /// Calls without an answer.
    in_flight: usize,
    /// When a thread was last called to help, and when a check has last ended.
    helped: Instant,
    ended: Instant,
}

/// The number of the call, and its result; `None`: it panicked.
type CheckAnswer<T> = (usize, Option<T>);

/// The number of the call, and since when it waits.
type CheckCall<T> = (usize, Instant, Box<dyn FnOnce() -> T + Send>);

struct CheckPool<T> {
    queue: Mutex<CheckQueue<T>>,
    more: Condvar,
    /// How many threads there may be without those that help.
    processors: usize,
    answers: Sender<CheckAnswer<T>>,
}

struct CheckQueue<T> {
    calls: VecDeque<CheckCall<T>>,
    threads: usize,
    /// The threads without a call.
    resting: usize,
    /// The resting threads that have been woken.
    woken: usize,
    /// How many more threads there may be.
    helping: usize,
}

impl<T: Send + 'static> Checks<T> {
    pub(super) fn new(processors: usize) -> Self {
        let (sender, answers) = channel(ANSWERS);
        let queue = CheckQueue {
            calls: VecDeque::new(),
            threads: 0,
            resting: 0,
            woken: 0,
            helping: 0,
        };
        let (queue, more) = (Mutex::new(queue), Condvar::new());
        let pool = Arc::new(CheckPool {
            queue,
            more,
            processors,
            answers: sender,
        });
        let (heard, now) = (Vec::new(), Instant::now());
        Self {
            pool,
            answers,
            heard,
            again: now,
            in_flight: 0,
            helped: now,
            ended: now,
        }
    }

    /// Makes a call as soon as a thread has time for it.
    pub(super) fn put(&mut self, number: usize, call: impl FnOnce() -> T + Send + 'static) {
        self.in_flight += 1;
        let mut queue = self.pool.lock();
        queue
            .calls
            .push_back((number, Instant::now(), Box::new(call)));
        self.pool.start(&mut queue);
    }

    /// Nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Takes back the calls that have not begun. Returns how many.
    pub(super) fn clear(&mut self) -> usize {
        let calls = std::mem::take(&mut self.pool.lock().calls);
        self.in_flight -= calls.len();
        calls.len()
    }

    /// One more of the answers that were heard together with the last one.
    pub(super) fn heard(&mut self) -> Option<CheckAnswer<T>> {
        let answer = self.heard.pop()?;
        self.in_flight -= 1;
        Some(answer)
    }

    /// The next answer. Cancel safe.
    pub(super) async fn answer(&mut self) -> CheckAnswer<T> {
        loop {
            let waiting = self.pool.lock().calls.front().map(|(_, since, _)| *since);
            let help = waiting.unwrap_or(self.helped).max(self.helped) + PATIENCE;
            tokio::select! {
                biased;
                answer = hear(&mut self.answers, &mut self.heard, &mut self.again) => {
                    self.in_flight -= 1;
                    self.ended = Instant::now();
                    return answer;
                }
                () = sleep_until(help), if waiting.is_some() => {
                    self.helped = Instant::now();
                    let mut queue = self.pool.lock();
                    if queue.helping < HELP || self.ended.elapsed() >= PATIENCE {
                        queue.helping += 1;
                        debug!(helping = queue.helping, "a check has waited for 500 ms: one more thread helps");
                        self.pool.start(&mut queue);
                    }
                }
            }
        }
    }
}

/// The next of the answers that were heard, or that are. Cancel safe.
async fn hear<A>(answers: &mut Receiver<A>, heard: &mut Vec<A>, again: &mut Instant) -> A {
    loop {
        if let Some(answer) = heard.pop() {
            return answer;
        }
        if Instant::now() < *again {
            sleep_until(*again).await;
        }
        answers.recv_many(heard, ANSWERS).await;
        heard.reverse();
        *again = Instant::now() + TOGETHER;
    }
}

impl<T> Drop for Checks<T> {
    /// Ends the resting threads.
    fn drop(&mut self) {
        self.answers.close();
        self.pool.more.notify_all();
    }
}

impl<T: Send + 'static> CheckPool<T> {
    /// A poisoned queue is as good as before: no call is made under the lock.
    fn lock(&self) -> MutexGuard<'_, CheckQueue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a resting thread, or starts a new one where there may be one.
    fn start(self: &Arc<Self>, queue: &mut CheckQueue<T>) {
        if queue.resting > queue.woken {
            queue.woken += 1;
            self.more.notify_one();
        } else if queue.threads < self.processors + queue.helping {
            queue.threads += 1;
            let pool = Arc::clone(self);
            spawn_blocking(move || pool.work());
        }
    }

    /// The next call for a thread; `None` when the thread is to end.
    fn next(&self) -> Option<CheckCall<T>> {
        let mut queue = self.lock();
        // One place less than there are processors is left for the walk of the roots.
        let rest = if queue.resting < (self.processors - 1).max(1) {
            REST
        } else {
            Duration::ZERO
        };
        let mut is_late = false;
        loop {
            if let Some(next) = queue.calls.pop_front() {
                return Some(next);
            }
            if is_late || self.answers.is_closed() {
                queue.threads -= 1;
                queue.helping = queue
                    .helping
                    .min(queue.threads.saturating_sub(self.processors));
                return None;
            }
            queue.resting += 1;
            let waited = self
                .more
                .wait_timeout(queue, rest)
                .unwrap_or_else(PoisonError::into_inner);
            (queue, is_late) = (waited.0, waited.1.timed_out());
            queue.resting -= 1;
            // Perhaps another thread was meant. Waking one too many does no harm; waking none would.
            queue.woken = queue.woken.saturating_sub(1);
        }
    }

    fn work(&self) {
        while let Some((number, _, call)) = self.next() {
            let answer = catch_unwind(AssertUnwindSafe(call)).ok();
            // It fails when the scheduler has ended.
            let _ = self.answers.blocking_send((number, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;

    fn wait_until(what: &str, seen: impl Fn() -> bool) {
        let begun = Instant::now();
        while !seen() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "never seen: {what}"
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[tokio::test]
    async fn what_hangs_delays_nobody_else() {
        let mut checks = Checks::new(2);
        let (let_go, hanging): (Vec<_>, Vec<_>) = (0..5).map(|_| mpsc::channel::<()>()).unzip();
        for (number, hanging) in hanging.into_iter().enumerate() {
            checks.put(number, move || hanging.recv().is_err());
        }
        checks.put(5, || false);
        assert_eq!(checks.answer().await, (5, Some(false)));
        let begun = Instant::now();
        for number in 6..100 {
            checks.put(number, || false);
            assert_eq!(checks.answer().await, (number, Some(false)));
        }
        assert!(
            begun.elapsed() < PATIENCE * 90,
            "the help stays while they hang"
        );
        drop(let_go);
        let mut ended = Vec::new();
        while !checks.is_idle() {
            ended.push(checks.answer().await);
        }
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2, 3, 4].map(|number| (number, Some(true))));
        wait_until("the end of the help", || {
            let queue = checks.pool.lock();
            (queue.threads, queue.helping) == (1, 0)
        });
    }

    #[tokio::test]
    async fn what_takes_long_is_helped_with_too() {
        let mut checks = Checks::new(1);
        for number in 0..20 {
            checks.put(number, || {
                thread::sleep(Duration::from_millis(100));
                thread::current().id()
            });
        }
        let mut threads = std::collections::HashSet::new();
        while !checks.is_idle() {
            threads.insert(checks.answer().await.1);
        }
        assert!(
            threads.len() > 1,
            "each ends, and the last of them would wait for two seconds"
        );
        wait_until("the end of the help", || checks.pool.lock().threads <= 1);
    }

    /// An answer may hold a gate, and an open directory.
    #[tokio::test]
    async fn few_answers_are_on_their_way_however_many_calls_there_are() {
        let mut checks = Checks::new(2);
        let made = Arc::new(AtomicUsize::new(0));
        for number in 0..1_000 {
            let made = Arc::clone(&made);
            checks.put(number, move || made.fetch_add(1, Ordering::Relaxed));
        }
        let all = ANSWERS + 2;
        wait_until("all that there is room for", || {
            made.load(Ordering::Relaxed) == all
        });
        thread::sleep(Duration::from_millis(50));
        assert_eq!(made.load(Ordering::Relaxed), all);
        while !checks.is_idle() {
            checks.answer().await;
        }
        assert_eq!(made.load(Ordering::Relaxed), 1_000);
    }

    #[tokio::test]
    async fn a_thread_that_has_been_woken_already_is_not_taken_for_one_that_rests() {
        let mut checks = Checks::new(2);
        checks.put(0, || ());
        checks.answer().await;
        wait_until("a thread that rests", || checks.pool.lock().resting == 1);
        {
            let mut queue = checks.pool.lock();
            for number in 1..=2 {
                checks.in_flight += 1;
                let call = (number, Instant::now(), Box::new(|| ()) as Box<_>);
                queue.calls.push_back(call);
                checks.pool.start(&mut queue);
            }
            assert_eq!((queue.woken, queue.threads), (1, 2));
        }
        while !checks.is_idle() {
            checks.answer().await;
        }
    }

    #[tokio::test]
    async fn few_threads_make_many_calls_and_one_that_panics_is_answered() {
        let mut checks = Checks::new(2);
        for number in 0..1_000 {
            checks.put(number, move || {
                assert_ne!(number, 500, "a fault");
                thread::current().id()
            });
        }
        let (mut threads, mut faults) = (std::collections::HashSet::new(), Vec::new());
        while !checks.is_idle() {
            match checks.answer().await {
                (_, Some(thread)) => drop(threads.insert(thread)),
                (number, None) => faults.push(number),
            }
        }
        assert_eq!(
            (faults, threads.len() <= 4),
            (vec![500], true),
            "{threads:?}"
        );
    }

    #[tokio::test]
    async fn what_has_not_begun_can_be_taken_back() {
        let mut checks = Checks::new(1);
        let (let_go, hanging) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        checks.put(0, move || {
            let _ = begin.send(());
            let _ = hanging.recv();
        });
        begun.recv().unwrap();
        (1..10).for_each(|number| checks.put(number, || ()));
        assert_eq!(checks.clear(), 9);
        drop(let_go);
        assert_eq!(checks.answer().await, (0, Some(())));
        assert!(checks.is_idle());
    }
}
