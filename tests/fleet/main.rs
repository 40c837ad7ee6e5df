//! Claims across machines beside a real etcd from Debian. By the library that both programs use, machines are
//! threads, each with a way to etcd of its own, and a witness outside etcd sees what runs when, by `CLOCK_BOOTTIME`;
//! by the programs, machines are clones.

mod actors;
mod clock;
mod commands;
mod deadline;
mod first_page;
mod ground;
mod hold;
mod hostile;
mod idle;
mod login;
mod network;
mod nodes;
mod programs;
mod random;
mod runbook;
mod site;
mod story;
mod witness;
