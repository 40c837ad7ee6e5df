//! The checks of all databases, beside the scheduler: a few threads take them from one queue.
//!
//! A check takes microseconds and many are due together, so as many threads as there are processors go through them
//! one after the other, and wait for nobody's work. A check can also hang, in a file system that does not answer. When
//! checks are waiting and none has ended for [`PATIENCE`], one more thread helps, for as long as the hanging one hangs.
//! So what hangs costs a thread each and nobody else's cycle; the bound is tokio's, 512 threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// How long no check may end while others wait before another thread helps.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long a thread without a call stays for the next one.
const REST: Duration = Duration::from_secs(10);

/// Calls on their way, each under a number, and their answers.
pub(super) struct Checks<T> {
    shared: Arc<Shared<T>>,
    answers: UnboundedReceiver<Answer<T>>,
    /// Put, and not answered yet.
    in_flight: usize,
    /// When it is next looked whether they get on.
    look: Instant,
}

/// Whose call it was, and what came of it; `None`: it panicked.
type Answer<T> = (usize, Option<T>);

type Call<T> = Box<dyn FnOnce() -> T + Send>;

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    more: Condvar,
    /// Threads without those that help.
    processors: usize,
    answers: UnboundedSender<Answer<T>>,
}

struct Queue<T> {
    calls: VecDeque<(usize, Call<T>)>,
    threads: usize,
    /// Those of them without a call.
    resting: usize,
    /// Helping threads that may be there too.
    helping: usize,
}

impl<T: Send + 'static> Checks<T> {
    /// Of so many threads.
    pub(super) fn new(processors: usize) -> Self {
        let (sender, answers) = unbounded_channel();
        let queue = Queue { calls: VecDeque::new(), threads: 0, resting: 0, helping: 0 };
        let shared =
            Arc::new(Shared { queue: Mutex::new(queue), more: Condvar::new(), processors, answers: sender });
        Self { shared, answers, in_flight: 0, look: Instant::now() }
    }

    /// Makes a call as soon as a thread has time for it.
    pub(super) fn put(&mut self, number: usize, call: impl FnOnce() -> T + Send + 'static) {
        self.in_flight += 1;
        let mut queue = self.shared.lock();
        if queue.calls.is_empty() {
            self.look = Instant::now() + PATIENCE;
        }
        queue.calls.push_back((number, Box::new(call)));
        self.shared.start(&mut queue);
    }

    /// Nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Takes back what has not begun. Returns how many that are.
    pub(super) fn clear(&mut self) -> usize {
        let calls = std::mem::take(&mut self.shared.lock().calls);
        self.in_flight -= calls.len();
        calls.len()
    }

    /// The next answer; for ever away while there is none. Nothing is lost when this is.
    pub(super) async fn answer(&mut self) -> Answer<T> {
        loop {
            let are_waiting = !self.shared.lock().calls.is_empty();
            tokio::select! {
                biased;
                Some(answer) = self.answers.recv() => {
                    self.in_flight -= 1;
                    self.look = Instant::now() + PATIENCE;
                    return answer;
                }
                () = sleep_until(self.look), if are_waiting => {
                    self.look = Instant::now() + PATIENCE;
                    let mut queue = self.shared.lock();
                    queue.helping += 1;
                    self.shared.start(&mut queue);
                }
            }
        }
    }
}

impl<T> Drop for Checks<T> {
    /// Nobody rests for longer.
    fn drop(&mut self) {
        self.answers.close();
        self.shared.more.notify_all();
    }
}

impl<T: Send + 'static> Shared<T> {
    /// A poisoned queue is as good as before: no call is made under the lock.
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more thread at it: one that rests, or a new one where there may be one.
    fn start(self: &Arc<Self>, queue: &mut Queue<T>) {
        if queue.resting > 0 {
            self.more.notify_one();
        } else if queue.threads < self.processors + queue.helping {
            queue.threads += 1;
            let shared = Arc::clone(self);
            spawn_blocking(move || shared.work());
        }
    }

    fn work(&self) {
        loop {
            let (number, call) = {
                let mut queue = self.lock();
                queue.resting += 1;
                let is_empty = |queue: &mut Queue<T>| queue.calls.is_empty() && !self.answers.is_closed();
                let waited = self.more.wait_timeout_while(queue, REST, is_empty);
                (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
                queue.resting -= 1;
                let Some(next) = queue.calls.pop_front() else {
                    queue.threads -= 1;
                    return;
                };
                next
            };
            let begun = Instant::now();
            let answer = catch_unwind(AssertUnwindSafe(call)).ok();
            if begun.elapsed() >= PATIENCE {
                let mut queue = self.lock();
                queue.helping = queue.helping.saturating_sub(1);
            }
            // It fails when nobody is there any more.
            let _ = self.answers.send((number, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

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
        assert!(begun.elapsed() < PATIENCE * 90, "the help stays while they hang");
        drop(let_go);
        let mut ended = Vec::new();
        while !checks.is_idle() {
            ended.push(checks.answer().await);
        }
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2, 3, 4].map(|number| (number, Some(true))));
        assert_eq!(checks.shared.lock().helping, 0, "no help is needed any more");
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
        assert_eq!((faults, threads.len() <= 4), (vec![500], true), "{threads:?}");
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
