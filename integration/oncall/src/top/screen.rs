//! The terminal of the view. However the view ends, the terminal is as it was before.

use std::io::{self, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::emulate_default_handler;

use crate::agent::ending::EndFlag;
use beadlock_console::base64;

/// The time in which the loop ends by itself.
const GRACE: Duration = Duration::from_secs(2);

/// The time between two looks whether the view was told to end.
const LOOK: Duration = Duration::from_millis(500);

/// Whether the terminal is the view's.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The view's screen. Dropped, the terminal is given back; a panic gives it back before it says why.
#[must_use = "dropped, the terminal is given back"]
#[derive(Debug)]
pub struct TopScreen {
    /// Never dropped: that would panic on a terminal that has gone, and the view shows the cursor itself.
    pub terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl TopScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When the terminal cannot be switched to the view.
    pub fn take() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        switch()?;
        Ok(Self {
            terminal: ManuallyDrop::new(Terminal::new(CrosstermBackend::new(io::stdout()))?),
        })
    }

    /// Gives the terminal back, stops as Ctrl-Z does, and takes the terminal again afterwards.
    ///
    /// # Errors
    /// When the terminal cannot be switched.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        raise(Signal::SIGTSTP)?;
        switch()?;
        self.terminal.clear()
    }

    /// Puts a text into the clipboard of the terminal (OSC 52), where it allows that.
    ///
    /// # Errors
    /// When the terminal cannot be written to.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout();
        write!(stdout, "\x1b]52;c;{}\x07", base64::encoded(text.as_bytes()))?;
        stdout.flush()
    }
}

/// Sees to it that a signal ends the view even while its loop stands still, since the terminal was stopped (Ctrl-S) or
/// has gone. Then the process ends by SIGTERM.
///
/// # Errors
/// When no thread can be had for that.
pub fn end_in_time(ended: EndFlag) -> io::Result<()> {
    let watch = move || {
        while !ended.is_set() {
            thread::sleep(LOOK);
        }
        thread::sleep(GRACE);
        // Beside: on a terminal that was stopped it would wait, too.
        drop(thread::Builder::new().spawn(give_back));
        thread::sleep(LOOK);
        let _ = emulate_default_handler(SIGTERM);
    };
    thread::Builder::new().spawn(watch).map(drop)
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        give_back();
    }
}

fn switch() -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::SeqCst);
    let switched =
        enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen, Hide));
    if switched.is_err() {
        give_back();
    }
    switched
}

/// Gives the terminal back, once. A terminal that has gone needs nothing.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_gives_the_terminal_back_and_is_read() {
        let scene = beadlock_testkit::Scene::new();
        let mut terminal = beadlock_testkit::Terminal::shell(&scene);
        let this = std::env::current_exe().unwrap().display().to_string();
        let name = "top::screen::tests::panics_on_the_screen";
        let test = format!("'{this}' --exact {name} --ignored --nocapture --test-threads 1");
        terminal.type_in(&format!(
            "stty -a > before; {test}; stty -a > after; echo > ended\n"
        ));
        terminal.until("the end", || scene.read("ended").ends_with('\n'));
        assert_eq!(scene.read("after"), scene.read("before"));
        let written = terminal.seen();
        let last = |what: &str| {
            written
                .rfind(what)
                .unwrap_or_else(|| panic!("no {what:?} in {written:?}"))
        };
        let (taken, back) = (last("\x1b[?1049h"), last("\x1b[?1049l"));
        assert!(
            taken < back && back < last("as a test wants it"),
            "it says why on the shell's screen: {written:?}"
        );
        assert!(
            last("\x1b[?25l") < last("\x1b[?25h"),
            "the cursor is shown: {written:?}"
        );
    }

    /// Run by the test above.
    #[test]
    #[ignore = "it needs a terminal, and panics"]
    fn panics_on_the_screen() {
        let _screen = TopScreen::take().unwrap();
        panic!("as a test wants it");
    }
}
