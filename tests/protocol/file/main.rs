//! Files that several programs write: `file:PATH`.

mod acl;
mod append;
mod crash;
mod evicted;
mod nested;
mod overhead;
mod room;
mod support;
mod update;
mod write;
