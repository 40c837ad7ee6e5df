//! The whole way of a line, from its writer through the real worker to the files.

use std::fs;
use std::path::PathBuf;

use super::*;

/// A log of its own for a test: not that of the process.
struct Scene {
    root: tempfile::TempDir,
    log: Log,
}

impl Scene {
    fn new(settings: LogSettings) -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            log: Log::start(settings, None).unwrap(),
        }
    }

    fn serve(&self, number: usize) -> PathBuf {
        let dir = self.root.path().join(number.to_string());
        fs::create_dir_all(&dir).unwrap();
        self.log.desk.serve(number, &dir);
        dir
    }
}

impl LogSender {
    fn output(&self, database: usize, text: &str) {
        self.put(Some(database), vec![agent_lines::output(text)]);
    }
}

/// All lines of a log in `dir`, the oldest first, without headers and times.
fn lines(dir: &Path, keep: u32) -> Vec<String> {
    let older = (1..=keep)
        .rev()
        .map(|number| dir.join(format!("daemon.log.{number}")));
    let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let all: String = older.chain([dir.join("daemon.log")]).map(text).collect();
    let messages = all.lines().map(|line| line.split_once("] ").unwrap().1);
    messages
        .filter(|line| !line.ends_with(", times in UTC"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_line_of_every_thread_is_there_once_and_in_order() {
    const EACH: usize = 5_000;
    let settings = LogSettings {
        size: 16 * 1024,
        keep: 200,
        ..LogSettings::default()
    };
    let scene = Scene::new(settings.clone());
    let dirs = [scene.serve(0), scene.serve(1)];
    thread::scope(|scope| {
        for writer in 0..4 {
            let desk = &scene.log.desk;
            scope.spawn(move || {
                for number in 0..EACH {
                    desk.output(number % 2, &format!("{writer} {number}"));
                }
            });
        }
    });
    scene.log.close();
    for (database, dir) in dirs.iter().enumerate() {
        assert!(
            dir.join("daemon.log.5").exists() && !dir.join("daemon.log.200").exists(),
            "rotated"
        );
        let lines = lines(dir, settings.keep);
        for writer in 0..4 {
            let front = format!("{writer} ");
            let numbers: Vec<usize> = lines
                .iter()
                .filter_map(|line| line.strip_prefix(&front)?.parse().ok())
                .collect();
            assert_eq!(
                numbers,
                (database..EACH).step_by(2).collect::<Vec<_>>(),
                "of {writer} in {database}"
            );
        }
        assert_eq!(lines.len(), 4 * EACH / 2, "and nothing else");
    }
}

#[test]
fn databases_and_settings_change_while_lines_are_in_flight() {
    const EACH: usize = 2_000;
    let scene = Scene::new(LogSettings {
        keep: 0,
        size: 1 << 30,
        ..LogSettings::default()
    });
    let dir = scene.serve(0);
    let all = scene.root.path().join("all.log");
    let shared = LogSettings {
        shared: Some(all.clone()),
        ..LogSettings::default()
    };
    thread::scope(|scope| {
        let desk = &scene.log.desk;
        let writer = scope.spawn(|| {
            (0..EACH).for_each(|number| desk.output(0, &number.to_string()));
        });
        let mut number = 1;
        while !writer.is_finished() {
            scene.serve(number);
            scene.log.desk.unserve(number);
            scene.log.desk.unserve(0);
            scene.serve(0);
            number += 1;
        }
        // What was said before, goes where it was said to.
        scene.log.desk.configure(shared).unwrap();
        scene.log.desk.put(None, vec![agent_lines::stopped()]);
    });
    scene.log.close();
    let expected: Vec<_> = (0..EACH).map(|number| number.to_string()).collect();
    assert_eq!(lines(&dir, 0), expected);
    let text = fs::read_to_string(all).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        text.lines().nth(1).unwrap().contains("] Agent stopped: "),
        "{text}"
    );
}

#[test]
fn a_line_for_everyone_is_for_those_of_that_moment() {
    let scene = Scene::new(LogSettings::default());
    let dirs = [scene.serve(0), scene.serve(1)];
    scene.log.desk.put(None, vec![agent_lines::started()]);
    scene.log.desk.unserve(1);
    scene.log.desk.put(None, vec![agent_lines::stopped()]);
    scene.log.close();
    assert_eq!(
        lines(&dirs[0], 0),
        [
            agent_lines::started().message,
            agent_lines::stopped().message
        ]
    );
    assert_eq!(lines(&dirs[1], 0), [agent_lines::started().message]);
}

#[test]
fn settings_that_cannot_be_are_refused_and_change_nothing() {
    let scene = Scene::new(LogSettings::default());
    let dir = scene.serve(0);
    let settings = LogSettings {
        shared: Some(dir.join("gone/all.log")),
        ..LogSettings::default()
    };
    let error = scene
        .log
        .desk
        .configure(settings.clone())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("gone/all.log cannot be written: no such file or directory; name a regular"),
        "{error}"
    );
    scene.log.desk.output(0, "x");
    scene.log.close();
    assert_eq!(lines(&dir, 0), ["x"]);
    assert!(Log::start(settings, None).is_err());
}
