//! What a claim on `tower:NAME` needs beyond any other claim: where its fields come from, and whether it locks at all.
//!
//! ```text
//! yaml.rs      the scalars of one YAML document by their keys; follows no alias
//! intent.rs    an intent file: its name, version, mode, time to live, and the template of its lock's name
//! mode.rs      observe, mutate, reconcile: who locks, and what is said of who should and does not
//! options.rs   the options of hold and acquire that belong to tower alone
//! fields.rs    what is typed, over the intent, over the defaults: the fields of the record to be
//! meant.rs     what a command line means that names a lock or an intent
//! work.rs      the command under a named lock: who ends it with us, which step failed, what undoes it
//! ```

pub mod fields;
pub mod intent;
pub mod meant;
pub mod mode;
pub mod options;
pub mod work;
mod yaml;
