//! Where a line goes: to the log of its database, or to the one log of all; to a terminal on stderr too, after that,
//! and only while it reads.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::Sender;

use beadlock_checker::database::Database;

use super::file::LogFile;
use super::layer::{Parcel, STAMP};
use super::terminal::Terminal;
use super::{complain, shown};

/// Files kept open at once: a database that has nothing to say has no open file.
const OPEN: usize = 32;

/// What is no line but the end of all lines; too short for a [`Parcel`].
pub(super) const END: &[u8] = b"end";

/// The writer behind the worker. It never fails: what cannot be written is complained of once, on stderr.
pub(super) struct Router {
    /// One for each database, or the one for all.
    files: Vec<LogFile>,
    is_shared: bool,
    /// How the databases are called in a stream that they share; empty when there is only one.
    names: Vec<String>,
    /// Open files, the longest unused first.
    open: VecDeque<usize>,
    terminal: Option<Terminal>,
    /// Told when [`END`] has come: everything before it is written.
    ended: Sender<()>,
}

impl Router {
    /// # Errors
    /// When the shared log cannot be written; that of a database may come to be later.
    pub(super) fn new(databases: &[Database], shared: Option<&Path>, ended: Sender<()>) -> io::Result<Self> {
        let files = match shared {
            Some(path) => {
                let mut file = LogFile::at(path);
                file.check()?;
                vec![file]
            }
            None => databases.iter().map(|database| LogFile::at(&database.dir.join("daemon.log"))).collect(),
        };
        let names = match databases {
            [_] => Vec::new(),
            several => several.iter().map(|database| shown(&database.dir)).collect(),
        };
        let (is_shared, terminal) = (shared.is_some(), Terminal::on_stderr());
        Ok(Self { files, is_shared, names, open: VecDeque::new(), terminal, ended })
    }

    fn deliver(&mut self, parcel: &Parcel) {
        let number = parcel.database.and_then(|number| usize::try_from(number).ok());
        let named = match number.and_then(|number| self.names.get(number)) {
            Some(name) => {
                let (stamp, text) = parcel.line.split_at(STAMP);
                format!("{stamp}{name}: {text}")
            }
            None => parcel.line.clone(),
        };
        match number {
            _ if self.is_shared => self.write(0, &named),
            Some(number) => self.write(number, &parcel.line),
            None => (0..self.files.len()).for_each(|number| self.write(number, &parcel.line)),
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.show(&named);
        }
    }

    fn write(&mut self, number: usize, line: &str) {
        let Some(file) = self.files.get_mut(number) else { return };
        if let Some(complaint) = file.write(line) {
            complain(complaint);
        }
        self.open.retain(|open| *open != number);
        self.open.push_back(number);
        if self.open.len() > OPEN
            && let Some(unused) = self.open.pop_front().and_then(|unused| self.files.get_mut(unused))
        {
            unused.close();
        }
    }
}

impl Write for Router {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes == END {
            let _ = self.ended.send(());
        } else if let Some(parcel) = Parcel::unpack(bytes) {
            self.deliver(&parcel);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_checker::database::Environment;
    use std::fs;
    use std::sync::mpsc;

    fn databases(root: &Path, count: usize) -> Vec<Database> {
        let database = |number| {
            let dir = root.join(format!("{number}/.beads"));
            fs::create_dir_all(&dir).unwrap();
            Database::named(&dir, &Environment::default()).unwrap()
        };
        (0..count).map(database).collect()
    }

    fn router(databases: &[Database], shared: Option<&Path>) -> Router {
        let mut router = Router::new(databases, shared, mpsc::channel().0).unwrap();
        router.terminal = None;
        router
    }

    fn parcel(database: Option<u32>, text: &str) -> Parcel {
        Parcel { database, line: format!("[2026-01-01 00:00:00] {text}\n") }
    }

    #[test]
    fn each_database_has_its_own_log_and_few_are_open() {
        let root = tempfile::tempdir().unwrap();
        let databases = databases(root.path(), OPEN + 5);
        let mut router = router(&databases, None);
        router.deliver(&parcel(None, "for all"));
        router.deliver(&parcel(Some(1), "for one"));
        for (number, database) in databases.iter().enumerate() {
            let text = fs::read_to_string(database.dir.join("daemon.log")).unwrap();
            assert!(text.ends_with("[2026-01-01 00:00:00] for one\n") == (number == 1), "{number}: {text}");
            assert!(text.contains("[2026-01-01 00:00:00] for all\n"), "{number}: {text}");
        }
        assert_eq!(router.files.iter().filter(|file| file.is_open()).count(), OPEN);
    }

    #[test]
    fn a_shared_log_names_the_database() {
        let root = tempfile::tempdir().unwrap();
        let databases = databases(root.path(), 2);
        let path = root.path().join("all.log");
        let mut router = router(&databases, Some(&path));
        router.deliver(&parcel(None, "for all"));
        router.deliver(&parcel(Some(1), "for one"));
        let text = fs::read_to_string(path).unwrap();
        let name = shown(&databases[1].dir);
        assert!(
            text.ends_with(&format!(
                "[2026-01-01 00:00:00] for all\n[2026-01-01 00:00:00] {name}: for one\n"
            )),
            "{text}"
        );
        assert!(!databases[0].dir.join("daemon.log").exists());
    }

    #[test]
    fn the_end_comes_after_everything() {
        let root = tempfile::tempdir().unwrap();
        let databases = databases(root.path(), 1);
        let (ended, has_ended) = mpsc::channel();
        let mut router = Router::new(&databases, None, ended).unwrap();
        router.terminal = None;
        router.deliver(&parcel(Some(0), "last"));
        assert!(has_ended.try_recv().is_err());
        assert_eq!(Write::write(&mut router, END).unwrap(), END.len());
        has_ended.try_recv().unwrap();
        let text = fs::read_to_string(databases[0].dir.join("daemon.log")).unwrap();
        assert!(text.ends_with("] last\n"), "{text}");
    }

    #[test]
    fn a_terminal_that_does_not_read_stops_nothing() {
        let root = tempfile::tempdir().unwrap();
        let databases = databases(root.path(), 1);
        let mut router = router(&databases, None);
        let pty = nix::pty::openpty(None, None).unwrap();
        // As `Terminal::on_stderr` opens it: with room for a part of a line only, a write would wait.
        let flags = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
        nix::fcntl::fcntl(&pty.slave, flags).unwrap();
        router.terminal = Some(Terminal::new(fs::File::from(pty.slave)));
        for number in 0..20_000 {
            router.deliver(&parcel(Some(0), &number.to_string()));
        }
        let text = fs::read_to_string(databases[0].dir.join("daemon.log")).unwrap();
        assert_eq!(text.lines().count(), 1 + 20_000);
    }
}
