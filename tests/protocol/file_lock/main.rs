//! The lock of a file by the real program, beside flock(1): docs/protocols/file.md names these tests.

mod acquire;
mod coming_from;
mod default_wait;
mod flock;
mod hold;
mod killed;
mod look;
mod lost;
mod nested;
mod scene;
