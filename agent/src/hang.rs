//! Calls that may never return, because a file system does not answer. Each is made in a thread of its own. The
//! caller waits only for as long as something answers.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::mounts::Mounts;
use beadlock_base::shell::{Part, to_type};

/// When nothing has answered for so long, what is under way hangs.
const PATIENCE: Duration = Duration::from_millis(500);

/// How many threads are added each time all threads at work hang.
const HELP: usize = 32;

/// A call, and its number.
type Numbered<T> = (usize, Box<dyn FnOnce() -> T + Send>);

/// Makes every call, each at most once, one after the other, or side by side as soon as one hangs. Returns the
/// answers in the order of the calls, and where the late ones arrive with the number of their call: `None` hangs
/// still.
pub(crate) fn call_each<T: Send + 'static>(
    calls: Vec<Box<dyn FnOnce() -> T + Send>>,
) -> (Vec<Option<T>>, Receiver<(usize, T)>) {
    let mut answers: Vec<Option<T>> = calls.iter().map(|_| None).collect();
    let mut missing = answers.len();
    let queue: Arc<Mutex<VecDeque<Numbered<T>>>> =
        Arc::new(Mutex::new(calls.into_iter().enumerate().collect()));
    let (sender, receiver) = channel();
    let has_more = || {
        !queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    };
    start(&queue, &sender);
    while missing > 0 {
        match receiver.recv_timeout(PATIENCE) {
            Ok((number, answer)) => {
                answers[number] = Some(answer);
                missing -= 1;
            }
            // Those that hang keep their threads; the others are made by new ones.
            Err(RecvTimeoutError::Timeout) if has_more() => {
                (0..HELP.min(missing)).for_each(|_| start(&queue, &sender));
            }
            Err(_) => break,
        }
    }
    (answers, receiver)
}

/// A thread that makes the calls of the queue. Where there can be none, this one makes them.
fn start<T: Send + 'static>(
    queue: &Arc<Mutex<VecDeque<Numbered<T>>>>,
    answers: &Sender<(usize, T)>,
) {
    let (shared, sender) = (Arc::clone(queue), answers.clone());
    let begun = thread::Builder::new()
        .name("look".to_owned())
        .spawn(move || work(&shared, &sender));
    if begun.is_err() {
        work(queue, answers);
    }
}

fn work<T>(queue: &Mutex<VecDeque<Numbered<T>>>, answers: &Sender<(usize, T)>) {
    let next = || {
        queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    };
    while let Some((number, call)) = next() {
        if answers.send((number, call())).is_err() {
            return;
        }
    }
}

/// Makes a call that may hang on what lies at `path`. `None`: it has not answered in time, or one that was made
/// before about this path has not answered yet.
pub(crate) fn call<T: Send + 'static>(
    path: &Path,
    call: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    static UNANSWERED: OnceLock<Mutex<HashSet<PathBuf>>> = OnceLock::new();
    let unanswered = || {
        UNANSWERED
            .get_or_init(Mutex::default)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    if !unanswered().insert(path.to_owned()) {
        return None;
    }
    let (sender, receiver) = channel();
    let at = path.to_owned();
    let begun = thread::Builder::new()
        .name("look".to_owned())
        .spawn(move || {
            let answer = call();
            unanswered().remove(&at);
            let _ = sender.send(answer);
        });
    if begun.is_err() {
        unanswered().remove(path);
    }
    receiver.recv_timeout(PATIENCE).ok()
}

/// Whether the file system at `path` answers in time. The directory is opened: a `stat` is answered from the kernel's
/// cache, for a second or more after the server has stopped.
pub(crate) fn answers(path: &Path) -> bool {
    let at = path.to_owned();
    call(path, move || drop(std::fs::read_dir(at))).is_some()
}

/// The reason why a look-up of `path` gets no answer, and what to do.
pub(crate) fn silence(mounts: &Mounts, path: &Path) -> String {
    match mounts.on_the_way(path) {
        Some(mount) => {
            let (kind, point) = (escaped(&mount.kind), escaped_path(&mount.point));
            let detach = to_type("umount -l {}", &[Part::Path(&mount.point)]);
            format!(
                "the file system {kind} at {point} does not answer; look at its server, or type: {detach}"
            )
        }
        None => "a file system that it leads to does not answer; look at its redirect and links"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Calls = Vec<Box<dyn FnOnce() -> usize + Send>>;

    #[test]
    fn all_answer_in_their_order() {
        let calls: Calls = (0..1_000_usize)
            .map(|number| Box::new(move || number) as _)
            .collect();
        let (answers, _late) = call_each(calls);
        assert_eq!(answers, (0..1_000).map(Some).collect::<Vec<_>>());
        assert_eq!(call_each(Calls::new()).0, []);
    }

    #[test]
    fn those_that_hang_keep_the_others_from_nothing_and_answer_late() {
        let (go_on, hangs) = channel::<()>();
        let hangs = Arc::new(Mutex::new(hangs));
        let calls: Calls = (0..400_usize)
            .map(|number| {
                let hangs = Arc::clone(&hangs);
                Box::new(move || {
                    if number % 10 == 0 {
                        let _ = hangs.lock().unwrap().recv();
                    }
                    number
                }) as _
            })
            .collect();
        let (answers, late) = call_each(calls);
        let missing: Vec<usize> = (0..400)
            .filter(|number| answers[*number].is_none())
            .collect();
        assert_eq!(missing, (0..400).step_by(10).collect::<Vec<_>>());
        drop(go_on);
        let mut arrived: Vec<usize> = late.iter().map(|(number, _)| number).collect();
        arrived.sort_unstable();
        assert_eq!(arrived, missing);
    }

    #[test]
    fn what_is_there_answers_and_what_is_not_too() {
        assert!(
            answers(Path::new("/")) && answers(Path::new("/nowhere")) && answers(Path::new("/"))
        );
    }

    #[test]
    fn one_that_hangs_is_not_asked_again_until_it_has_answered() {
        let (go_on, hangs) = channel::<()>();
        let path = Path::new("/one that hangs");
        assert_eq!(call(path, move || hangs.recv().is_err()), None);
        assert_eq!(call(path, || true), None);
        drop(go_on);
        let answered = (0..100_000).find(|_| {
            thread::yield_now();
            call(path, || true) == Some(true)
        });
        assert!(answered.is_some());
    }
}
