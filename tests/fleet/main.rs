//! Claims across machines, by the library that both programs use, beside a real etcd from Debian. Machines are threads here, each with
//! a way to etcd of its own; a witness outside etcd sees what runs when, by `CLOCK_BOOTTIME`.

mod actors;
mod ground;
mod nodes;
mod story;
mod witness;
