//! Who asks for a lock within a process: who has it already and asks again would wait for itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A thread, or one of the tasks that a thread runs in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    thread: u64,
    /// 0: the thread itself, which runs no task.
    task: u64,
    /// Whether nothing else of the thread runs while this one waits.
    blocks_thread: bool,
}

/// The number of the next thread. Another thread never gets the same one.
static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
    /// Who asks in this thread, where that is not the thread itself.
    static INSTEAD: Cell<Option<Asker>> = const { Cell::new(None) };
}

impl Asker {
    /// Who asks now: this thread, unless it works for another one ([`Asker::run`]).
    pub fn current() -> Self {
        INSTEAD.get().unwrap_or_else(|| Self {
            thread: Self::thread(),
            task: 0,
            blocks_thread: true,
        })
    }

    /// The number of this thread.
    pub fn thread() -> u64 {
        THREAD.with(|number| *number)
    }

    /// The task of this number, 0 for none, of the thread with that number. `blocks_thread`: it waits in its own thread,
    /// and not beside it.
    pub fn task(thread: u64, task: u64, blocks_thread: bool) -> Self {
        Self {
            thread,
            task,
            blocks_thread,
        }
    }

    /// The result of `work`, in which this one asks.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        struct Before(Option<Asker>);
        impl Drop for Before {
            fn drop(&mut self) {
                INSTEAD.set(self.0);
            }
        }
        let _before = Before(INSTEAD.replace(Some(self)));
        work()
    }

    /// Whether they are one, however they wait.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.thread, self.task) == (other.thread, other.task)
    }

    /// Whether this one would wait for itself, where `holder` has what it asks for: they are one, only this one's thread
    /// could let the holder go on, or the holder is that thread, which goes on when its tasks have ended.
    pub fn would_wait_for_itself(&self, holder: &Self) -> bool {
        let is_held_up = self.blocks_thread || self.task == holder.task || holder.task == 0;
        self.thread == holder.thread && is_held_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_its_tasks() {
        let me = Asker::current();
        assert_eq!(me, Asker::current());
        let other = std::thread::spawn(Asker::current).join().unwrap();
        assert!(me.would_wait_for_itself(&me) && !me.would_wait_for_itself(&other));
        let task = |number, blocks| Asker::task(Asker::thread(), number, blocks);
        let (first, second) = (task(1, false), task(2, false));
        assert!(first.would_wait_for_itself(&first));
        assert!(!second.would_wait_for_itself(&first));
        assert!(task(2, true).would_wait_for_itself(&first));
        assert!(me.would_wait_for_itself(&first), "its thread");
        assert!(
            first.would_wait_for_itself(&me),
            "which waits for its tasks"
        );
    }

    #[test]
    fn a_thread_works_for_another_one() {
        let me = Asker::current();
        let other = Asker::task(me.thread + 1_000_000, 7, false);
        assert_eq!(other.run(Asker::current), other);
        let panics = std::panic::catch_unwind(|| other.run(|| panic!("in between")));
        assert!(panics.is_err());
        assert_eq!(Asker::current(), me);
    }
}
