use std::fs;

use super::{is_fit_to_be_said, scratch};

/// A configuration holds or is refused with its file and line. What `--print-config` prints of one that holds is
/// a configuration that holds, and prints itself.
pub fn config(bytes: &[u8]) {
    let cwd = scratch("config");
    if !cwd.is_dir() {
        for database in [".beads", "a/.beads", "b/.beads"] {
            fs::create_dir_all(cwd.join(database)).expect("a database");
        }
    }
    let printed = |text: &[u8]| {
        fs::write(cwd.join("conf.toml"), text).expect("a file");
        beadlock_agent::print_config(&cwd, "conf.toml".as_ref())
    };
    match printed(bytes) {
        Ok(first) => {
            assert_eq!(
                printed(first.as_bytes()).as_ref(),
                Ok(&first),
                "it prints something else of itself"
            );
        }
        Err(failure) => {
            let (code, words) = (failure.code, failure.to_string());
            words.lines().for_each(is_fit_to_be_said);
            let mut place = words.split(':');
            assert_eq!(place.next(), Some("conf.toml"), "no file: {words}");
            let number = |part: Option<&str>| part.and_then(|part| part.parse().ok()).unwrap_or(0);
            let (line, column): (usize, usize) = (number(place.next()), number(place.next()));
            let lines = String::from_utf8_lossy(bytes).split('\n').count();
            assert!(
                (1..=lines).contains(&line) && column > 0,
                "no place of {lines} lines: {words}"
            );
            assert!(
                [1, 2].contains(&code) && words.lines().count() == 3,
                "{code}: {words}"
            );
        }
    }
}
