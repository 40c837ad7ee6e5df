//! A terminal that draws: a window of a tmux of one's own, whose screen can be read.

use std::process::Command;

use crate::{Ended, Scene, run, skip, until};

/// A server with one window, and a shell in it. Dropped, it ends with all that runs in the window.
pub struct Tmux<'a> {
    scene: &'a Scene,
}

impl<'a> Tmux<'a> {
    /// A window of that many columns and lines; `None` where there is no tmux, which is said. The shell has these
    /// variables besides.
    #[track_caller]
    pub fn start(
        scene: &'a Scene,
        (columns, lines): (u16, u16),
        variables: &[&str],
    ) -> Option<Self> {
        skip::tool("tmux")?;
        let tmux = Self { scene };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let shell = ["env", "PS1=$ ", "LANG=C.UTF-8"]
            .iter()
            .chain(variables)
            .copied()
            .chain(["sh"]);
        let shell: Vec<&str> = shell.collect();
        tmux.call(
            &[
                &[
                    "-f",
                    "/dev/null",
                    "new-session",
                    "-d",
                    "-x",
                    &columns,
                    "-y",
                    &lines,
                ][..],
                &shell,
            ]
            .concat(),
        );
        tmux.call(&["set-option", "-g", "set-clipboard", "on"]);
        until("the shell is there", || tmux.screen().starts_with('$'));
        Some(tmux)
    }

    fn command(&self) -> Command {
        let mut command = self.scene.command("tmux");
        // Relative: the path of a socket is short.
        command.args(["-u", "-S", "tmux.sock"]);
        command
    }

    /// What a command of tmux prints.
    #[track_caller]
    pub fn call(&self, args: &[&str]) -> String {
        let mut command = self.command();
        command.args(args);
        let ended = Ended::from(run(command));
        assert_eq!(ended.code, 0, "tmux {args:?}: {ended:?}");
        ended.out
    }

    /// Types these words and Return.
    #[track_caller]
    pub fn type_line(&self, line: &str) {
        self.call(&["send-keys", "-l", line]);
        self.call(&["send-keys", "Enter"]);
    }

    /// Presses a key, by tmux's name of it.
    #[track_caller]
    pub fn press(&self, key: &str) {
        self.call(&["send-keys", key]);
    }

    /// The screen, without colours.
    #[track_caller]
    pub fn screen(&self) -> String {
        self.call(&["capture-pane", "-p"])
    }

    /// The screen with its colours, as escape sequences.
    #[track_caller]
    pub fn painted(&self) -> String {
        self.call(&["capture-pane", "-p", "-e"])
    }

    /// Another size of the window.
    #[track_caller]
    pub fn resize(&self, (columns, lines): (u16, u16)) {
        self.call(&[
            "resize-window",
            "-x",
            &columns.to_string(),
            "-y",
            &lines.to_string(),
        ]);
    }

    /// A value of tmux's, such as `alternate_on`.
    #[track_caller]
    pub fn value(&self, name: &str) -> String {
        self.call(&["display-message", "-p", &format!("#{{{name}}}")])
            .trim()
            .to_owned()
    }

    /// Waits until the screen is as wished, and returns it.
    #[track_caller]
    pub fn wait_for(&self, what: &str, seen: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let begun = std::time::Instant::now();
        loop {
            screen.clone_from(&self.screen());
            if seen(&screen) {
                return screen;
            }
            assert!(
                begun.elapsed() < crate::PATIENCE,
                "waited in vain for: {what}\n{screen}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let mut command = self.command();
        command.arg("kill-server");
        let _ = command.output();
    }
}
