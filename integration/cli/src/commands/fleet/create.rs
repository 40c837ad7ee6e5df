//! `beadlock fleet create [URL]`.

use beadlock_claim::error::Problem;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, fs, io::Write, os::fd::AsFd};

use beadlock_base::{duration::shown, escape::escaped_path};
use beadlock_core::facts;
use beadlock_fleet::{Config, Created, ErrorKind, Fleet, Places};
use clap::Args;
use serde_json::{Value, json};

use crate::fleet::config::places;
use crate::fleet::error::fleet_error;
use beadlock_base::poll::wait_for;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::observe::NotAcquired;
use beadlock_claim::words::millis;
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{conclude, end_of},
};
use beadlock_supervise::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  beadlock fleet create etcd://build-1:2379/beads
  beadlock fleet create --above 1795636517363889";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = super::EXITS)]
pub struct CreateArgs {
    /// Where the etcd is, and the prefix of the fleet's keys: etcd://HOST:2379[,HOST:PORT…]/PREFIX, or etcds:// for
    /// TLS [default: the url of fleet.toml]
    pub url: Option<String>,
    /// Make every fencing token higher than this one: the highest of a fleet that was restored or lost
    #[arg(long, value_name = "TOKEN")]
    pub above: Option<u64>,
}

pub fn run(typed: &CreateArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let created = create(typed, environment, common).map_err(|stopped| {
        end_of(
            stopped,
            "; the fleet is there, and lets nobody begin for up to 15s",
            ExitCodeOverrides::default(),
        )
    });
    conclude(common, created)
}

fn create(
    typed: &CreateArgs,
    environment: &Environment,
    common: &Console,
) -> Result<Value, NotAcquired> {
    let (talk, places) = (&common.talk, places(environment));
    let (config, is_written) = configured(typed.url.as_deref(), &places)?;
    let Created { fleet, is_new } = Fleet::create(&config, typed.above).map_err(fleet_error)?;
    let url = fleet.url();
    if !is_written {
        write(&config)?;
        talk.say(&format!(
            "wrote {}, for every command on this machine that finds it",
            escaped_path(config.source())
        ));
    }
    match is_new {
        true => talk.say(&format!("made the fleet at {url}")),
        false => talk.say(&format!(
            "there is a fleet at {url} already; it stays as it is"
        )),
    }
    let begun = Instant::now();
    let mut signals = Signals::block().map_err(Error::of_signals)?;
    let mut is_first = true;
    while let Some(left) = fleet.is_new().map_err(fleet_error)? {
        talk.say_live(&Young { left }, std::mem::take(&mut is_first));
        let [signalled] = wait_for(
            [Some(signals.as_fd())],
            left.clamp(Duration::from_millis(200), Duration::from_secs(1)),
        );
        let received = if signalled { signals.receive() } else { None };
        if let Some(received) = received {
            return Err(NotAcquired::Signalled(received.signal));
        }
    }
    talk.end_live();
    talk.say("it is ready; in each clone of a database: beadlock fleet join NAME");
    let config = config.source().to_string_lossy();
    Ok(json!({
        "url": url, "fleet": fleet.nonce(), "created": is_new, "config": config, "waited_ms": millis(begun.elapsed()),
    }))
}

/// Why `create` waits.
struct Young {
    left: Duration,
}

impl fmt::Display for Young {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = shown(self.left);
        write!(
            f,
            "waiting {left}: work under an earlier fleet there may need up to 15s to end, so nobody begins before"
        )
    }
}

/// The configuration, and whether it is written already.
fn configured(url: Option<&str>, places: &Places) -> Result<(Config, bool), Error> {
    let read = Config::read(places);
    let Some(url) = url else {
        return Ok((read.map_err(fleet_error)?, true));
    };
    let to_write = places.to_write(nix::unistd::geteuid().is_root());
    let typed = Config::of_url(url, to_write).map_err(Error::usage)?;
    match read {
        Ok(config) if config.url() == typed.url() => Ok((config, true)),
        Ok(config) => {
            let (file, written) = (escaped_path(config.source()), config.url());
            Err(Error::usage(format!(
                "{file} has url = \"{written}\"; leave the URL out, or change it there"
            )))
        }
        Err(error) if error.kind() == ErrorKind::NoConfig => Ok((typed, false)),
        Err(error) => Err(fleet_error(error)),
    }
}

/// Writes the configuration where none was.
fn write(config: &Config) -> Result<(), Error> {
    let path = config.source();
    let failed = |error: std::io::Error| {
        let text = config.text();
        let why = Error::failed(format_args!("write {}", escaped_path(path)), &error);
        let message = format!(
            "{why}; the fleet is made: write into that file: {}",
            text.trim_end()
        );
        why.saying(message)
    };
    let above = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above).map_err(failed)?;
    let mut file = fs::File::options()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(failed)?;
    let head = format!("# Written by beadlock fleet create, {}.\n", facts::now());
    file.write_all((head + &config.text()).as_bytes())
        .map_err(failed)
}
